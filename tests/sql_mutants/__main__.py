"""Mutation testing of SQL: `python -m tests.sql_mutants` changes a lock, an order or a comparison of owners, one at a time.

First all tests on Postgres run once, which shows the statements that each test executes (`--map` does so again). Then the
quickest tests of its statement run with each mutant, until one fails. `explained.txt` has the mutants that no test notices, and
why that is right.
"""

import os
import subprocess
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tests.documents import ROOT
from tests.sql_mutants.explained import EXPLAINED, explanations
from tests.sql_mutants.mutations import Mutant, all_mutants
from tests.sql_mutants.plugin import MAP, MUTANTS, VERDICTS, Trial

CACHE = ROOT / ".cache" / "sql-mutants"
NOTICED = CACHE / "noticed.txt"

TESTS = tuple(f"tests/integration/{name}" for name in ("engine", "ingest", "events", "api", "cli", "web", "notify", "model"))
"""Tests that execute statements in their own process. Tests of plans notice a changed text, and not what it does."""

MOST_S, MOST_TESTS = 6.0, 40
"""The tests of a mutant: the quickest of each file in turn, up to these limits. A test of a lock takes less than a second."""

HANGS_S = 60
"""A test that waits so long for a lock fails."""

AT_LOCKS = ("lock", "take_over", "claim", "fence", "daemons", "listening", "beside")
"""Parts of the names of the files whose tests hold two sessions side by side: they come first."""

Run = Mapping[str, tuple[float, Sequence[str]]]
"""By test, its duration in seconds and the statements that it executes."""


def map_tests(jobs: int) -> None:
    """Run all tests once. Tests that fail are left out."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for old in CACHE.glob("gw*.json"):
        old.unlink()
    subprocess.run(_pytest("-n", f"{jobs}", *TESTS), cwd=ROOT, env={**os.environ, MAP: str(CACHE)}, check=False)


def read_map() -> Run:
    found: dict[str, tuple[float, Sequence[str]]] = {}
    for path in CACHE.glob("gw*.json"):
        found |= msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[float, list[str]]])
    return found


def tests_of(statement: str, run: Run, most_s: float) -> list[str]:
    """The tests for the mutants of a statement."""
    by_file: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for took_s, test in sorted((took_s, test) for test, (took_s, statements) in run.items() if statement in statements):
        by_file[test.partition("::")[0]].append((took_s, test))
    turns = range(max(map(len, by_file.values()), default=0))
    in_turn = [each[turn] for turn in turns for each in by_file.values() if turn < len(each)]
    chosen, total_s = list[str](), 0.0
    for took_s, test in sorted(in_turn, key=lambda each: not any(part in each[1].partition("::")[0] for part in AT_LOCKS)):
        if len(chosen) < MOST_TESTS and (total_s + took_s <= most_s or not chosen):
            chosen.append(test)
            total_s += took_s
    return chosen


def try_all(trials: Sequence[Trial], jobs: int) -> None:
    """In processes that share nothing: the mutants of a statement are in one."""
    running = []
    for number in range(jobs):
        statements = sorted({trial.statement for trial in trials})[number::jobs]
        mine = [trial for trial in trials if trial.statement in statements]
        file = CACHE / f"trials-{number}.json"
        file.write_bytes(msgspec.json.encode(mine))
        files = sorted({test.partition("::")[0] for trial in mine for test in trial.tests})
        env = {**os.environ, MUTANTS: str(file), VERDICTS: str(NOTICED)}
        running.append(
            subprocess.Popen(_pytest("-n0", f"--timeout={HANGS_S}", "-o", "timeout_func_only=true", *files), cwd=ROOT, env=env)
        )
    for process in running:
        process.wait()


def _pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "tests.sql_mutants.plugin", "-p", "no:cacheprovider", *arguments]


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.sql_mutants", description=__doc__)
    parser.add_argument("statements", nargs="*", help="such as submissions.claim_intents, or submissions; all without any")
    parser.add_argument("--map", action="store_true", help="run all tests first, although a map of them is there")
    parser.add_argument("--resume", action="store_true", help="leave out the mutants that were noticed before")
    parser.add_argument("--seconds", type=float, default=MOST_S, help="the tests of each mutant take so long at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    if chosen.map or not read_map():
        map_tests(chosen.jobs)
    if not chosen.resume:
        NOTICED.write_text("")
    run, noticed = read_map(), set(NOTICED.read_text().splitlines())
    mutants = [mutant for mutant in all_mutants() if _is_chosen(mutant, chosen.statements)]
    trials = [
        Trial(it.name, it.statement, it.sql, tests_of(it.statement, run, chosen.seconds))
        for it in mutants
        if it.name not in noticed
    ]
    try_all(trials, chosen.jobs)
    return _tell(mutants, {trial.name: len(trial.tests) for trial in trials}, is_whole=not chosen.statements)


def _is_chosen(mutant: Mutant, statements: Collection[str]) -> bool:
    return not statements or mutant.statement in statements or mutant.statement.partition(".")[0] in statements


def _tell(mutants: Sequence[Mutant], tests: Mapping[str, int], *, is_whole: bool) -> int:
    """Print the mutants that no test notices and no line explains, and the explanations that nothing needs."""
    reasons, noticed, names = explanations(), set(NOTICED.read_text().splitlines()), {mutant.name for mutant in mutants}
    survived = [mutant.name for mutant in mutants if mutant.name not in noticed]
    sys.stdout.write(f"{len(names)} mutants: {len(names & noticed)} noticed, {len(set(survived) & reasons.keys())} explained\n")
    open_ = [name for name in survived if name not in reasons]
    sys.stdout.writelines(f"error: not noticed by {tests.get(name, 0)} tests: {name}\n" for name in open_)
    spent = (reasons.keys() & noticed) | (reasons.keys() - names if is_whole else set())
    sys.stdout.writelines(f"error: {EXPLAINED.name}: noticed, or gone: {name}\n" for name in sorted(spent))
    return 1 if open_ or spent else 0


if __name__ == "__main__":
    sys.exit(main())
