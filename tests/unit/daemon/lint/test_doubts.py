"""What works in a DAG file and seems not to be meant so, by table: the file, and the notes about it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.daemon.lint.test_rules import parsed
from tidegate.daemon.lint.rules import findings_of
from tidegate.daemon.lint.schedules import missed_runs

JOINED = (
    "the schedule joins k://a & k://b by arrival, and tasks read their extra: a run may have events of different days; let the"
    " first task compare them, or write Timed(…, within=…)"
)
NO_SHELL = "a command has no shell; write"


HEAD = """from datetime import UTC, datetime, timedelta
import tidegate
from tidegate import *
a, b = Dataset('k://a'), Dataset('k://b')
"""


def notes(body: str) -> list[str]:
    """With the lines of the body."""
    file = parsed(HEAD + body)
    found = findings_of(file, Path("/"), (), None, {})
    before = file.source.removesuffix(body).count("\n")
    assert not found.mistakes
    return [f"{note.line and note.line - before}: {note.sentence}" for note in found.notes]


def dag(schedule: str, *body: str) -> str:
    return "\n".join([f"with Dag('d', {schedule}) as dag:", *(f"    {line}" for line in body or ["pass"])])


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (
            dag("schedule='0 0 31 2 *'"),
            "has no time after",
        ),
        (
            dag("schedule='@yearly', end_date=datetime(2020, 1, 1, tzinfo=UTC)"),
            "has no time after",
        ),
        (
            dag("schedule='* * * * *', catchup=True, start_date=datetime(2020, 1, 1, tzinfo=UTC)"),
            "1: DAG 'd': catchup makes more than 10,000 runs at once when the DAG is first deployed, one for each time since its"
            " start_date; write paused=True to deploy it paused, or a later start_date",
        ),
        (dag("schedule=n_of(2, a, a, b)"), "1: DAG 'd': n_of counts k://a 2 times, and one event of it counts as 2"),
        (
            dag("schedule=n_of(1, a & b, a & b) | b"),
            "1: DAG 'd': n_of counts k://a & k://b 2 times, and one event of it counts as 2",
        ),
        (dag("schedule=a & b", "dag.sql('t', '{{ events[0].extra.day }}')"), f"1: DAG 'd': {JOINED}"),
        (
            dag("schedule=n_of(2, a, b)", "@dag.task", "def t(spark, run):", "    return run.events[0].extra"),
            f"1: DAG 'd': {JOINED}",
        ),
        (
            dag("schedule=a", "@dag.task", "def t(spark, run):", "    return follow('smal')", "t >> dag.empty('small')"),
            "4: DAG 'd', task 't': the function follows 'smal', which is no task directly after it; did you mean small?",
        ),
        (
            dag("schedule=a", "@dag.task", "def t(spark, run):", "    return tidegate.follow('x')", "t >> dag.empty('small')"),
            "4: DAG 'd', task 't': the function follows 'x', which is no task directly after it; directly after it come small",
        ),
        (
            dag("schedule=a", "@dag.task", "def t(spark, run):", "    return follow('x')"),
            "4: DAG 'd', task 't': the function follows 'x', which is no task directly after it; no task comes after it",
        ),
        (
            dag("schedule=a", "@dag.task", "def t(spark, run):", "    return run.results['x']"),
            "4: DAG 'd', task 't': the function fails: there is no 'x' in results; no task comes before it",
        ),
        (
            dag(
                "schedule=a", "for i in range(2):", "    @dag.task(task_id=f't{i}')", "    def t(spark, run):", "        print(i)"
            ),
            "4: function t reads 'i' of the loop around it, which has its last value when a task runs; write def"
            " t(spark, run, i=i)",
        ),
        (
            "def make():\n    with Dag('x'):\n        pass",
            "1: function make builds a DAG, and nothing in this file calls it, so the file does not have the DAG",
        ),
        (
            dag("schedule=a", "dag.command('t', ['echo hi | wc'])"),
            "2: DAG 'd', task 't': it calls the program 'echo hi | wc', with the spaces:"
            f' {NO_SHELL} ["bash", "-c", \'echo hi | wc\']',
        ),
        (
            dag("schedule=a", "dag.command('t', ['my tool', 'x'])"),
            f"2: DAG 'd', task 't': it calls the program 'my tool', with the spaces: {NO_SHELL} one argument each",
        ),
        (
            dag("schedule=a", "dag.command('t', ['cat', 'x', '>', 'y'])"),
            f"2: DAG 'd', task 't': it gives the program '>' as an argument: {NO_SHELL} [\"bash\", \"-c\", \"…\"]",
        ),
    ],
)
def test_what_is_hardly_meant_has_a_note(body: str, note: str) -> None:
    assert [note in text for text in notes(body)] == [True]


@pytest.mark.parametrize(
    "body",
    [
        dag("schedule='0 0 29 2 *'"),
        dag("schedule='@once'"),
        dag("schedule='* * * * *', start_date=datetime(2020, 1, 1, tzinfo=UTC)"),
        dag("schedule='* * * * *', catchup=True, paused=True, start_date=datetime(2020, 1, 1, tzinfo=UTC)"),
        dag("schedule=n_of(1, a & b, a)"),
        dag("schedule=a & b", "dag.sql('t', 'SELECT 1')"),
        dag("schedule=a | b", "dag.sql('t', '{{ events[0].extra.day }}')"),
        dag("schedule=Timed(a & b, within=timedelta(hours=1))", "dag.sql('t', '{{ events[0].extra.day }}')"),
        dag("schedule=a", "@dag.task", "def t(spark, run):", "    return follow('x', name)", "t >> dag.empty('x')"),
        dag(
            "schedule=a",
            "@dag.task",
            "def t(spark, run):",
            "    return run.results['x'] + other.results['y']",
            "dag.empty('x') >> t",
        ),
        dag(
            "schedule=a",
            "for i in range(2):",
            "    @dag.task(task_id=f't{i}')",
            "    def t(spark, run, i=i):",
            "        print(i)",
        ),
        dag("schedule=a", "for i in range(2):", "    def t(spark, run):", "        print(i)"),
        dag(
            "schedule=a",
            "for i in range(2):",
            "    @dag.task(task_id=f't{i}')",
            "    def t(spark, run):",
            "        i = 1",
            "        [i for i in x]",
        ),
        "def make():\n    with Dag('x'):\n        pass\nmake()",
        "def make():\n    with Dag('x'):\n        pass\nglobals()['make']()",
        "def other():\n    pass",
        dag(
            "schedule=a",
            "dag.command('t', ['bash', '-c', 'echo hi | wc'])",
            "dag.command('u', ['{{ run_id | e }}', 'a b', 'a|b'])",
        ),
    ],
)
def test_what_may_be_meant_has_no_note(body: str) -> None:
    assert notes(body) == []


@pytest.mark.parametrize(("options", "missed"), [("", 0), ("catchup=True", 101), ("catchup=True, paused=True", 101)])
def test_missed_runs_are_counted_up_to_the_end_of_the_dag(options: str, missed: int) -> None:
    dates = "start_date=datetime(2020, 1, 1, tzinfo=UTC), end_date=datetime(2020, 1, 5, 4, tzinfo=UTC)"
    (spec,) = parsed(HEAD + dag(f"schedule='@hourly', {dates}, {options}")).dags

    assert missed_runs(spec, datetime(2026, 1, 1, tzinfo=UTC)) == missed
