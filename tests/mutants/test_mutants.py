"""Changes of decisions are noticed by unit tests."""

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.documents import ROOT
from tests.mutants.__main__ import spare_async
from tests.mutants.frames import TRAMPOLINE, frame
from tests.mutants.survivors import Survivor, equivalents


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="takes hours: make test-long, make mutants")
def test_no_folder_falls_below_its_score() -> None:
    command = [sys.executable, "-m", "tests.mutants", "--jobs", "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_an_equivalent_mutant_has_a_reason() -> None:
    assert equivalents("# a comment\n\na.b: x = 1  # nothing reads x\n") == {Survivor("a.b", "x = 1")}
    with pytest.raises(ValueError, match=r"equivalent\.txt, line 2: expected"):
        equivalents("# a comment\na.b: x = 1\n")
    assert equivalents()


def test_async_functions_are_not_mutated() -> None:
    source = "async def load(\n    db: Db,\n) -> int:\n    return 1\n\n\ndef decide() -> int:\n    return 2\n"
    spared = source.replace(") -> int:\n    return 1", ") -> int:  # pragma: no mutate block\n    return 1")

    assert spare_async(source) == spared


def test_the_frames_of_trampolines_are_not_seen() -> None:
    own: dict[str, Any] = {}
    exec(compile("def trampoline(called): return called()", TRAMPOLINE, "exec"), own)  # noqa: S102 - a frame of that file

    assert own["trampoline"](lambda: frame(1)) is frame()
    assert own["trampoline"](lambda: frame(2)) is frame(1)
    with pytest.raises(ValueError, match="call stack is not deep enough"):
        frame(10_000)


@pytest.mark.parametrize("folder", ["handlers", "schemas"])
def test_the_tests_that_mutants_run_read_no_page(folder: str) -> None:
    """They run in a copy that has no pages."""
    assert [path for path in (ROOT / "tests" / "unit" / folder).rglob("*.py") if "tests.documents" in path.read_text()] == []
