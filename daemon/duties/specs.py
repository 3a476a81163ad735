"""What is to be submitted for claims: the task, and what it may know of its run."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.queries import sources, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.results import results_for
from tidegate.schemas.queries.sources import RunSource
from tidegate.schemas.queries.submissions import Claimed


async def specs(db: Db, claims: Sequence[Claimed]) -> list[SubmissionSpec]:
    """What is to be submitted for these claims, in their order."""
    known = await sources.of_runs(db, {claim.dag_run_id for claim in claims})
    graphs = await versions.graphs(db, {source.version_id for source in known.values()})
    wanted = [Wanted(claim, source := known[claim.dag_run_id], graphs[source.version_id]) for claim in claims]
    instances = [(each.claim.dag_run_id, each.graph, each.claim.task_index) for each in wanted if each.may_find_results]
    results = await results_for(db, instances)
    return [_spec(each, results.get((each.claim.dag_run_id, each.claim.task_index), {})) for each in wanted]


class Wanted(NamedTuple):
    """A claim, and what it is about."""

    claim: Claimed
    source: RunSource
    graph: Graph

    @property
    def may_find_results(self) -> bool:
        """A mapped task returns a list also where none of its instances returned anything."""
        return self.source.has_results or self.graph.mapped


def _spec(wanted: Wanted, results: dict[str, Any]) -> SubmissionSpec:
    claim, source, graph = wanted
    node, element = graph.node(claim.task_index), element_of(claim.task_index)
    item = None if element is None or node.over is None else results[graph.nodes[node.over].task.task_id][element]
    asked = {"task_id": node.task.task_id, "try_number": claim.try_number, "map_index": element, "item": item}
    return SubmissionSpec(
        submission_id=claim.submission_id,
        try_number=claim.try_number,
        task=node.task,
        run=msgspec.structs.replace(source.context, results=results, **asked),
        dag_path=source.dag_path,
        source=source.source,
    )
