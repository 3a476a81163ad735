"""Names that DAG files share with others: pools and datasets."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches

import msgspec

from tidegate.daemon.lint.finding import Mistake
from tidegate.schemas.conditions.condition import dataset_uris
from tidegate.schemas.dag import BaseTask, DagSpec
from tidegate.schemas.error import did_you_mean

NEAR = 0.8


class Installation(msgspec.Struct, frozen=True):
    """The pools of a server, and those of the asked datasets that had an event or have a producer."""

    pools: Collection[str]
    datasets: Collection[str]


def unknown_pool(task: BaseTask, pools: Collection[str]) -> Iterator[Mistake]:
    if task.pool not in pools:
        hint = did_you_mean(task.pool, pools) or "; tasks wait until `tidegate pools set` creates it"
        yield Mistake(task.pool, f"pool {task.pool!r} does not exist{hint}")


def outlets_of(specs: Iterable[DagSpec]) -> set[str]:
    """The datasets that tasks update."""
    return {uri for spec in specs for task in spec.tasks for uri in task.outlets}


def inputs_of(specs: Iterable[DagSpec]) -> set[str]:
    """The datasets that conditions name."""
    return {uri for spec in specs if spec.schedule is not None for uri in dataset_uris(spec.schedule)}


def silent_inputs(spec: DagSpec, outlets: Collection[str], installation: Installation | None) -> Iterator[Mistake]:
    """Inputs of a DAG that no task updates, and that a server has no event of.

    Without a server only those with the name of an outlet but for a few letters: other programs publish the events of the rest.
    """
    for uri in sorted(inputs_of([spec]) - set(outlets)):
        near = _misspelt(uri, outlets)
        if installation is not None and uri not in installation.datasets:
            yield Mistake(uri, f"dataset {uri} has had no event, and no task updates it{near}")
        elif installation is None and near:
            yield Mistake(uri, f"no task of these files updates dataset {uri}{near}")


def _misspelt(uri: str, outlets: Collection[str]) -> str:
    """A hint at an outlet that differs in one part only, and nearly not at all: whole URIs of a lake are all alike."""
    close = next((outlet for outlet in sorted(outlets) if _is_close(uri.split("/"), outlet.split("/"))), None)
    return f"; did you mean {close}?" if close else ""


def _is_close(parts: Sequence[str], others: Sequence[str]) -> bool:
    if len(parts) != len(others):
        return False
    different = [pair for pair in zip(parts, others, strict=True) if pair[0] != pair[1]]
    return len(different) == 1 and bool(get_close_matches(different[0][0], different[0][1:], cutoff=NEAR))
