"""Builds the submission of each claim: the task, the run, its events and the results of upstream tasks."""

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


async def submission_specs(db: Db, claims: Sequence[Claimed]) -> list[SubmissionSpec]:
    """The submissions of the claims, in their order."""
    run_sources = await sources.of_runs(db, {claim.dag_run_id for claim in claims})
    graphs = await versions.graphs(db, {source.version_id for source in run_sources.values()})
    parts = [Parts(claim, source := run_sources[claim.dag_run_id], graphs[source.version_id]) for claim in claims]
    instances = [(part.claim.dag_run_id, part.graph, part.claim.task_index) for part in parts if part.may_have_results]
    results = await results_for(db, instances)
    return [_spec(part, results.get((part.claim.dag_run_id, part.claim.task_index), {})) for part in parts]


class Parts(NamedTuple):
    """A claim with the source and the graph of its run's version."""

    claim: Claimed
    source: RunSource
    graph: Graph

    @property
    def may_have_results(self) -> bool:
        """A mapped task has a result, a list, even if no instance returned a value."""
        return self.source.has_results or self.graph.mapped


def _spec(parts: Parts, results: dict[str, Any]) -> SubmissionSpec:
    claim, source, graph = parts
    node, element = graph.node(claim.task_index), element_of(claim.task_index)
    item = None if element is None or node.over is None else results[graph.nodes[node.over].task.task_id][element]
    instance = {"task_id": node.task.task_id, "try_number": claim.try_number, "map_index": element, "item": item}
    return SubmissionSpec(
        submission_id=claim.submission_id,
        try_number=claim.try_number,
        task=node.task,
        run=msgspec.structs.replace(source.context, results=results, **instance),
        dag_path=source.dag_path,
        source=source.source,
    )
