"""The check of a conf in a process of its own."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import anyio
import pytest

from tidegate.daemon import conf
from tidegate.daemon.conf import findings_of
from tidegate.schemas.error import Finding, UnavailableError
from tidegate.schemas.params import Params, ParamSpec

PARAMS = Params({"day": ParamSpec(schema={"pattern": "^(a+)+$"})})
ENVIRONMENT = "import json, os; print(json.dumps([{'pointer': '', 'problem': ' '.join(sorted(os.environ))}]))"
BY_CONF = "import sys, time; time.sleep(60 * ('slow' in sys.stdin.read())); print('[]')"

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_limits_of_other_tests() -> None:
    conf._of_dag.cache_clear()


def instead(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(conf, "CHECK", (sys.executable, "-c", program))


@contextmanager
def ignored(number: signal.Signals) -> Iterator[None]:
    """Here, and so in the processes that start here."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("day", "problem"), [("aaa", []), ("b", ["param 'day': 'b' does not match '^(a+)+$'"])])
async def test_the_process_says_the_problem(day: str, problem: list[str]) -> None:
    assert [found.problem for found in await findings_of("a", PARAMS, {"day": day})] == problem


async def test_the_process_refuses_other_keys_as_the_daemon_does() -> None:
    conf = {"day": "a", "days": 1}

    assert await findings_of("a", PARAMS, conf) == [Finding("/days", "there is no param 'days'", "did you mean day?")]
    assert await findings_of("a", Params(PARAMS.specs, extra=True), conf) == []


async def test_the_process_gets_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", "postgresql://tidegate:secret@localhost/tidegate")
    instead(monkeypatch, ENVIRONMENT)

    names = (await findings_of("a", PARAMS, {"day": "a"}))[0].problem.split()

    assert set(names) <= {*conf.SHOWN, "LC_CTYPE"}  # Python sets that one itself
    assert "PATH" in names or "PATH" not in os.environ


async def test_a_check_that_needs_too_much_of_a_processor_is_the_fault_of_the_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "CPU_S", 1)
    monkeypatch.setattr(conf, "WALL_S", 200.0)  # others may have the processors

    with ignored(signal.SIGXCPU):
        found = await findings_of("a", PARAMS, {"day": "a" * 60 + "b"})

    assert found == [Finding("", "its check had no result within 1 s", "make its schemas simpler, a pattern for instance")]


@pytest.mark.parametrize(
    ("command", "wall_s", "why"),
    [
        ((sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"), 200, "its process ended with exit code -9"),
        ((sys.executable, "-c", "import sys; sys.exit('no memory')"), 200, "its process ended with exit code 1 no memory"),
        (("/no/python",), 200, "its process did not run: .*/no/python"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), 0.5, "it did not end within 0.5 s"),
    ],
)
async def test_a_process_without_a_result_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, command: Sequence[str], wall_s: float, why: str
) -> None:
    monkeypatch.setattr(conf, "CHECK", command)
    monkeypatch.setattr(conf, "WALL_S", wall_s)

    with pytest.raises(UnavailableError, match=f"^the conf could not be checked: {why}.*; repeat it later$"):
        await findings_of("a", PARAMS, {"day": "a"})


async def test_slow_checks_of_a_dag_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, BY_CONF)

    async with anyio.create_task_group() as tasks:
        for _ in range(conf.OF_DAG):
            tasks.start_soon(findings_of, "slow", PARAMS, {"day": "slow"})
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(conf, "WAIT_S", 0.05)

        with pytest.raises(UnavailableError, match=r"^other confs are checked, those of DAG 'slow' too; repeat it later$"):
            await findings_of("slow", PARAMS, {"day": "a"})
        assert await findings_of("other", PARAMS, {"day": "a"}) == []
        tasks.cancel_scope.cancel()
