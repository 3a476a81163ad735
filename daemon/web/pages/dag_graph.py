"""The tasks of a DAG as a graph, with their states in the last run."""

from msgspec import Struct

from tidegate.daemon.api.dags import GraphOf, show_graph
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.task_graph import GraphNode, TaskGraph
from tidegate.daemon.web.layered_graph import Box, Drawing, drawing
from tidegate.daemon.web.rendering import dag_url, task_url
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import GridRun
from tidegate.schemas.text import counted


class GraphScreen(Struct, frozen=True):
    """The tasks of a DAG and how they are drawn."""

    graph: TaskGraph
    drawing: Drawing


async def read(db: Db, call: Call[GraphOf]) -> GraphScreen:
    graph = await show_graph(db, call)
    boxes = {node.name: box(call.params.dag_id, node, graph.run) for node in graph.nodes}
    return GraphScreen(graph, drawing(boxes, graph.edges))


def box(dag_id: str, node: GraphNode, run: GridRun | None) -> Box:
    if node.is_group:
        text = f"{node.name} ({counted(node.tasks, 'task', 'tasks')})"
        return Box(text, dag_url(dag_id, "graph", group=node.name), node.state or "")
    address = task_url(dag_id, run.run_id, node.name) if run and node.state else ""
    return Box(node.name, address, node.state or "")


SCREEN = Screen(Read("/dags/{dag_id}/graph", Right.VIEW, read, GraphOf, GraphScreen), "dag_graph.html")
