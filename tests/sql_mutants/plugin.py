"""A plugin of pytest: which statements each test executes, and each test once for every mutant that it may notice.

`SQL_MAP` is the folder for the statements of each test. `SQL_MUTANTS` is a file with mutants, their texts and their tests; what
becomes of each mutant is appended to `SQL_VERDICTS`. All mutants of a process share its servers, and each run of a test has a
database of its own.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from _pytest.runner import runtestprotocol

from tidegate.schemas.queries import sql

MUTANTS, VERDICTS, MAP = "SQL_MUTANTS", "SQL_VERDICTS", "SQL_MAP"

_PARAMETER = re.compile(r"\$\d+")


class Trial(msgspec.Struct, frozen=True):
    """A mutant and the tests that it has to pass."""

    name: str
    statement: str
    sql: str
    tests: Sequence[str]


def pytest_configure(config: pytest.Config) -> None:
    if MUTANTS in os.environ:
        trials = msgspec.json.decode(Path(os.environ[MUTANTS]).read_bytes(), type=list[Trial])
        config.pluginmanager.register(_Trials(trials, Path(os.environ[VERDICTS])))
    elif MAP in os.environ:
        config.pluginmanager.register(_Map(Path(os.environ[MAP])))


class _Trials:
    """Runs the tests of the mutants. A test that fails without a mutant, too, tells nothing."""

    def __init__(self, trials: Sequence[Trial], verdicts: Path) -> None:
        self._of_test: dict[str, list[Trial]] = defaultdict(list)
        for trial in trials:
            for test in trial.tests:
                self._of_test[test].append(trial)
        self._items: list[pytest.Item] = []
        self._noticed: set[str] = set()
        self._verdicts = verdicts

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._of_test]
        self._items = items

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        another = nextitem or next((other for other in self._items if other is not item), None)  # keeps the servers
        for trial in self._of_test[item.nodeid]:
            if trial.name not in self._noticed:
                with _mutated(trial):
                    failed = _fails(item, another)
                if failed and not _fails(item, another):
                    self._noticed.add(trial.name)
                    with self._verdicts.open("a") as file:
                        file.write(f"{trial.name}\n")
        if nextitem is None:
            _fails(item, None)  # takes down the servers
        return True


def _fails(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, which may have run before."""
    item._initrequest()  # type: ignore[attr-defined]  # as pytest does before the first run
    return any(report.failed for report in runtestprotocol(item, nextitem=nextitem, log=False))


@contextmanager
def _mutated(trial: Trial) -> Iterator[None]:
    """All modules share one dict of the statements of a file."""
    topic, _, name = trial.statement.partition(".")
    statements = sql.load(topic)
    original, statements[name] = statements[name], trial.sql
    try:
        yield
    finally:
        statements[name] = original


class _Map:
    """Notes the texts that asyncpg executes, by test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._executed: set[str] = set()
        self._found: dict[str, tuple[float, list[str]]] = {}
        for name in ("_execute", "execute", "_executemany", "prepare"):
            setattr(asyncpg.Connection, name, self._watched(getattr(asyncpg.Connection, name)))

    def _watched(self, method: Any) -> Any:
        @wraps(method)
        async def watched(connection: Any, query: str, *args: Any, **options: Any) -> Any:
            self._executed.add(query)
            return await method(connection, query, *args, **options)

        return watched

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._executed.clear()
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._found[report.nodeid] = report.duration, sorted({name for query in self._executed for name in _names(query)})

    def pytest_sessionfinish(self) -> None:
        if self._found:
            worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
            (self._folder / f"{worker}.json").write_bytes(msgspec.json.encode(self._found))


@cache
def _known() -> dict[str, list[str]]:
    """The names of the statements with each text, whatever the numbers of its parameters."""
    found = defaultdict(list)
    for path in sorted(Path(sql.__file__).parent.glob("*.sql")):
        for name, text in sql.load(path.stem).items():
            found[_PARAMETER.sub("$", text)].append(f"{path.stem}.{name}")
    return found


@cache
def _names(query: str) -> frozenset[str]:
    """The statements that a query is made of."""
    plain = _PARAMETER.sub("$", query)
    return frozenset(name for text, names in _known().items() if text in plain for name in names)
