"""Which mutants survived, and which of them are known to be equivalent to the original."""

import json
from collections import defaultdict
from collections.abc import Iterator, Set
from pathlib import Path
from typing import NamedTuple

import msgspec
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.utils.file_utils import change_cwd

EQUIVALENT = Path(__file__).with_name("equivalent.txt")
NOTICED = {1, 3, 24, -24, 36, 152, 255}
"""The exit codes of mutants that a test noticed: it failed, or ran out of time."""


class Survivor(NamedTuple):
    """A function, and the line of it that the mutant has in the place of another."""

    function: str
    line: str

    def __str__(self) -> str:
        return f"{self.function}: {self.line}"


class Score(msgspec.Struct):
    """Of a folder. Mutants that are known to be equivalent to the original are left out."""

    mutants: int = 0
    survivors: list[Survivor] = msgspec.field(default_factory=list)

    @property
    def noticed(self) -> int:
        return self.mutants - len(self.survivors)

    @property
    def percent(self) -> float:
        return 100 * self.noticed / max(self.mutants, 1)


def equivalents(text: str | None = None) -> Set[Survivor]:
    """The mutants of which `equivalent.txt` says why nothing can differ. Raises ValueError for a line without a reason."""
    found = set()
    for number, line in enumerate((EQUIVALENT.read_text() if text is None else text).splitlines(), 1):
        if line and not line.startswith("#"):
            function, colon, rest = line.partition(": ")
            mutated, mark, reason = rest.partition("  # ")
            if not (colon and mark and reason.strip()):
                raise ValueError(f"{EQUIVALENT.name}, line {number}: expected `function: mutated line  # reason`, found {line!r}")
            found.add(Survivor(function, mutated.strip()))
    return found


def judge(stage: Path, known: Set[Survivor]) -> dict[str, Score]:
    """By folder, without the mutants that are known to be equivalent."""
    scores: dict[str, Score] = defaultdict(Score)
    with change_cwd(stage):
        for name, code in _results(Path("mutants")):
            survivor = None if code in NOTICED else _survivor(name)
            if survivor is None or survivor not in known:
                score = scores[_folder(name)]
                score.mutants += 1
                score.survivors += [survivor] if survivor is not None else []
    return scores


def _results(mutants: Path) -> Iterator[tuple[str, int | None]]:
    for path in sorted(mutants.rglob("*.meta")):
        yield from json.loads(path.read_text())["exit_code_by_key"].items()


def _folder(name: str) -> str:
    """`handlers/tasks` of `tidegate.handlers.tasks.advance.x_advance__mutmut_3`."""
    return "/".join(name.split(".")[1:-2])


def _survivor(name: str) -> Survivor:
    lines = get_diff_for_mutant(name).splitlines()[2:]
    added = [line[1:].strip() for line in lines if line.startswith("+")]
    removed = [line[1:].strip() for line in lines if line.startswith("-")]
    function = name.rpartition("__mutmut_")[0].removeprefix("tidegate.")
    return Survivor(function, " ".join(added) or f"without {' '.join(removed)}")
