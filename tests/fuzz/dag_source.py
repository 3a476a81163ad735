"""Sources of DAG files, drawn by a grammar: authoring calls with valid options, and now and then one that is not."""

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.fuzz.values import mostly
from tidegate.schemas.dag import TriggerRule, WeightRule

Source = SearchStrategy[str]
"""Expressions or statements of Python."""

HEADER = """\
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from tidegate import *


class Evil:
    def __repr__(self): raise ValueError("repr")
    __str__ = __hash__ = __eq__ = __iter__ = __len__ = __bool__ = __lt__ = __index__ = __float__ = __call__ = __repr__


class Text(str): ...


def notify(context): ...
def other(context): ...
def two(spark, run): return [1]
async def late(spark, run): ...

a, b = Dataset("s://a"), Dataset("s://b")
"""


def of(*sources: str) -> Source:
    return st.sampled_from(sources)


def call(function: str, /, *positional: Source, **named: Source) -> Source:
    """A call with these arguments, and any of the named ones."""
    options = st.fixed_dictionaries({}, optional=named)
    return st.tuples(st.tuples(*positional), options).map(
        lambda parts: f"{function}({', '.join([*parts[0], *(f'{key}={value}' for key, value in parts[1].items())])})"
    )


def listed(source: Source, max_size: int = 3, min_size: int = 0) -> Source:
    return st.lists(source, min_size=min_size, max_size=max_size).map(lambda parts: f"[{', '.join(parts)}]")


JUNK = of(
    *("None", "0", "1", "-1", "True", "''", "'x'", "b'x'", "[]", "()", "{}", "...", "object()", "Evil()", "Evil", "Text('x')"),
    *("float('nan')", "float('inf')", "10**400", "-(2**31) - 1", "2**31", "1e-320", "100_001", "1.5", "'x' * 100_000"),
    *("'\\ud800'", "'a\\0b'", "'{{ run_id }}'", "'\\x1b[31m'", "'ü'", "timedelta.max", "timedelta.min", "timedelta(0)"),
    *("datetime.min", "datetime.max.replace(tzinfo=UTC)", "datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))"),
    *("date(2024, 1, 1)", "time(1, tzinfo=UTC)", "range(3)", "iter([])", "(x for x in ())", "lambda *_: 0", "notify", "print"),
    *("{1: 2}", "{'x': {1}}", "[[]]", "Evil().x", "a", "[a, a]", "a & 1", "Email", "Dag", "Param", "sys", "1 / 0", "[None]"),
    *("open('/etc/passwd')", "exit(3)", "'s://a'", "['s://a']", "Email()", "every()", "cron()", "n_of(0)", "[Evil()]"),
)


def valid(source: Source) -> Source:
    """An argument, one of 60 of the wrong kind."""
    return mostly(source, JUNK, 60)


DURATIONS = valid(
    of(*("timedelta(seconds=1)", "timedelta(hours=2)", "timedelta(days=3650)", "timedelta(microseconds=1)", "timedelta(days=1)"))
)
BOOLEANS = valid(of("True", "False"))
COUNTS = valid(of("1", "2", "16", "100_000"))
MOMENTS = valid(
    of(
        *("datetime(2024, 2, 29, tzinfo=UTC)", "datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo('Europe/Zurich'))"),
        *("datetime(1900, 1, 1, tzinfo=UTC)", "datetime(2200, 1, 1, tzinfo=UTC)", "datetime(2026, 5, 1, 12, tzinfo=UTC)"),
        *("datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo('Europe/Zurich'))", "datetime(2199, 12, 31, 23, tzinfo=UTC)"),
    )
)
ZONES = mostly(
    of(*("'UTC'", "'Europe/Zurich'", "'America/St_Johns'", "'Pacific/Apia'", "'Africa/Casablanca'", "'Antarctica/Troll'")),
    of(*("'Mars/Base'", "'../etc/passwd'", "'a\\0'", "''", "'localtime'", "'posix/UTC'")) | JUNK,
    30,
)
FILTERS = mostly(
    of(*("''", "'n > 1'", "'kind == \"x\" and not n in [1, 2]'", "'a.b[0] == null'", "'n >= -1e3 or kind < \"é\"'")),
    of(*("'n >'", "'('", "'not ' * 40 + 'a == 1'", "'a == 1 ' * 300", "'n == 1e999'", "'n == ' + '9' * 5000")) | JUNK,
    30,
)
DATASETS = mostly(
    of("a", "b")
    | call("Dataset", valid(of("'s://a'", "'s://t/1'", "'s://' + 'x' * 2044")), where=FILTERS, expire_after=DURATIONS),
    call("Dataset", valid(of("'s://a'")), name=valid(of("'A'", "'x' * 250")), extra=valid(of("{'n': 1}", "{'n': [1e300]}"))),
)
PATTERNS = call(
    "DatasetPattern",
    mostly(of("'s://*'", "'s://t/**'", "'**'", "'s://*/*/*/*/*/*/*/*'"), of("'s://a'", "'***'", "'*' * 9") | JUNK, 30),
    where=FILTERS,
    expire_after=DURATIONS,
)
CONDITIONS: Source = st.recursive(
    mostly(DATASETS, PATTERNS, 4),
    lambda inner: (
        st.tuples(inner, mostly(of("&", "|"), of("and", "+", "<"), 60), inner).map(lambda parts: f"({' '.join(parts)})")
        | st.tuples(mostly(of("1"), of("2", "3", "0", "True"), 8), listed(inner, 4, 1)).map(
            lambda parts: f"n_of({', '.join(parts)})"
        )
    ),
    max_leaves=6,
)
DEADLINES = valid(
    call(
        "Deadline",
        valid(of("'late'", "'x' * 250", "'\\x1b'")),
        DURATIONS.map(lambda after: f"after={after}"),
        since=valid(of("'logical_date'", "'queued_at'")),
    )
    | of(*(f"Deadline('daily', at={at})" for at in ("time(2, 30)", "time(0)", "time(23, 59, 59, 999999)", "None")))
)
INPUT_DEADLINES = valid(
    DURATIONS.map(lambda after: f"InputDeadline(after={after})")
    | st.tuples(of("time(2, 30)", "time(23, 59, 59)"), of("'run_anyway'", "'skip'", "'alert'", "'x'")).map(
        lambda parts: f"InputDeadline(at={parts[0]}, fallback={parts[1]})"
    )
)
TIMED = call(
    "Timed",
    CONDITIONS | listed(CONDITIONS, min_size=1),
    within=DURATIONS,
    quiet_for=DURATIONS,
    max_wait=DURATIONS,
    min_interval=DURATIONS,
    expire_after=DURATIONS,
    deadline=INPUT_DEADLINES,
)
EXPRESSIONS = mostly(
    of(*("'0 3 * * *'", "'*/7 * * * * *'", "'@daily'", "'0 0 29 2 *'", "'30 2 * * 0'", "'0 0 L * *'", "'59 23 31 12 5#5'")),
    of(*("'99 * * * *'", "'0 0 30 2 *'", "'@never'", "'* * * *'", "'0-59/0 * * * *'", "'" + "1," * 300 + "1 * * * *'")) | JUNK,
    15,
)
MODES = valid(of("'trigger'", "'interval'"))
TIMES = mostly(
    EXPRESSIONS
    | listed(EXPRESSIONS, min_size=1)
    | listed(MOMENTS, min_size=1)
    | of("'@once'", "'@continuous'", "timedelta(hours=1)", "timedelta(milliseconds=1)", "timedelta(days=36500)")
    | call("cron", EXPRESSIONS, timezone=ZONES, mode=MODES, interval=DURATIONS)
    | call(
        "every",
        of("days=1", "months=1", "months=5, hours=0.5", "weeks=3", "months=1200", "days=36500"),
        seconds=valid(of("1", "0.5", "3600")),
        timezone=ZONES,
        mode=MODES,
        interval=DURATIONS,
    ),
    JUNK,
    30,
)
SCHEDULES = mostly(
    CONDITIONS
    | TIMED
    | TIMES
    | listed(CONDITIONS, min_size=1)
    | call("DatasetOrTime", TIMED | CONDITIONS, TIMES)
    | call("DatasetsAndTime", TIMED | CONDITIONS, TIMES),
    JUNK,
    30,
)
RECEIVERS = valid(
    mostly(of("notify", "[notify, other]"), of("two", "late", "lambda c: 0", "print"), 20)
    | call(
        "Email",
        mostly(of("'ops@example.org'"), of("'ü@x'", "'a b'", "'x'", "''", "'a@b\\r\\nBcc: c@d'")),
        subject=of("'late'", "'\\n'"),
    )
    | call(
        "Webhook",
        mostly(of("'https://example.org/h'"), of("'ftp://x'", "'http://[::1'", "'http://h:99999'", "'x'", "'http://ü'")),
    )
)
SCHEMAS = of(
    *("type='string'", "type='integer', minimum=1", "enum=['x', 1]", "type='string', format='date'", "anyOf=[{'type': 'null'}]"),
    *("type='nothing'", "pattern='('", "pattern='(a+)+$'", "minimum='x'", "multipleOf=0", "multipleOf=1e-320", "required=1"),
    *("**{'$ref': '#'}", "**{'$ref': 'http://h/x'}", "**{'$ref': '#/$defs/x', '$defs': {'x': {'type': 'string'}}}", "const={1}"),
    *("**{'$id': 'http://h/', '$ref': 'x'}", "properties={'x': 1}", "description=Evil()", "maximum=float('nan')", "items=[1]"),
)
DEFAULTS = (
    of("'x'", "1", "None", "'2024-01-01'", "[1]", "{'a': 1}", "10**400", "1e308", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'") | JUNK
)
PARAMETERS = mostly(DEFAULTS, st.tuples(DEFAULTS, SCHEMAS).map(lambda parts: f"Param({', '.join(parts)})"), 2)
PARAMS = st.dictionaries(of("'p'", "'q'", "'ü'", "''", "1"), PARAMETERS, max_size=2).map(
    lambda params: "{" + ", ".join(f"{name}: {value}" for name, value in params.items()) + "}"
)
CALLBACKS: Mapping[str, Source] = {f"on_{on}": RECEIVERS for on in ("success", "failure", "timeout", "deadline")}
OPTIONS: Mapping[str, Source] = {
    "retries": valid(of("0", "3", "1000")),
    "retry_delay": DURATIONS,
    "retry_exponential_backoff": valid(of("1", "2.5", "100", "101")),
    "max_retry_delay": DURATIONS,
    "trigger_rule": valid(of(*(repr(str(rule)) for rule in TriggerRule))),
    "execution_timeout": DURATIONS,
    "pool": valid(of("'default_pool'", "'p'", "'x' * 250")),
    "pool_slots": COUNTS,
    "priority_weight": valid(of("1", "-5", "2**31 - 1", "-(2**31)")),
    "weight_rule": valid(of(*(repr(str(rule)) for rule in WeightRule))),
    "max_active_tis_per_dag": COUNTS,
    "max_active_tis_per_dagrun": COUNTS,
    "depends_on_past": BOOLEANS,
    "wait_for_downstream": BOOLEANS,
    "ignore_first_depends_on_past": BOOLEANS,
    "start_date": MOMENTS,
    "end_date": MOMENTS,
    "outlets": valid(listed(DATASETS)),
    "deadlines": valid(listed(DEADLINES, 2)),
    "resources": valid(of("{'memory': '2g'}", "{'cpus': 0.5}", "{'memory': '1m', 'cpus': 2}", "{'disk': 1}", "{}")),
    "on_retry": RECEIVERS,
    **CALLBACKS,
}
NAMES = mostly(of("'t1'", "'t2'", "'t3'", "'t4'", "'t-5.x'"), of("'x' * 250", "'a b'", "'ü'", "'٣'", "'x\\n'") | JUNK, 40)
TEXTS = valid(of("'true'", "'{{ run_id }}'", "'{{'", "'{% for %}'", "'SELECT 1'", "'x' * 70_000"))
ON_SPARK: Mapping[str, Source] = {"cluster": valid(of("'nightly'", "''", "'a b'"))}
OF_PROGRAMS: Mapping[str, Source] = {
    "env": valid(of("{'A': '{{ ds }}'}", "{'A': Secret('s')}", "{'A': '{{'}", "{'1': 'x'}", "{'TIDEGATE_A': 'x'}", "{'A': 1}")),
    "python": valid(of("'/opt/etl/bin/python'", "'python'", "'/a\\n'")),
}
FILES = valid(of("['lib.py']", "['s3a://b/lib.zip', '{{ ds }}.zip']", "['a,b']", "'lib.py'", "['../lib.py']"))
OF_KINDS: Mapping[str, Mapping[str, Source]] = {
    "command": {**OF_PROGRAMS, "cwd": TEXTS},
    "empty": {},
    "sql": ON_SPARK,
    "submit": {
        **ON_SPARK,
        **OF_PROGRAMS,
        **dict.fromkeys(("py_files", "files", "jars", "packages"), FILES),
        "deploy_mode": valid(of("'client'", "'cluster'")),
    },
    "task": {**ON_SPARK, **OF_PROGRAMS},
}


@st.composite
def options(draw: DrawFn, known: Mapping[str, Source], most: int) -> str:
    names = draw(st.lists(st.sampled_from(sorted(known)), max_size=most, unique=True))
    return "".join(f", {name}={draw(known[name])}" for name in names)


@st.composite
def tasks(draw: DrawFn, number: int) -> list[str]:
    """The statements that define a task, link it to earlier ones, and map it or make it a teardown."""
    kind = draw(of("command", "empty", "sql", "submit", "task"))
    name, given = draw(NAMES) if draw(st.booleans()) else f"'n{number}'", draw(options({**OPTIONS, **OF_KINDS[kind]}, 3))
    made = {
        "command": f"dag.command({name}, [{draw(TEXTS)}]{given})",
        "empty": f"dag.empty({name}{given})",
        "sql": f"dag.sql({name}, {draw(TEXTS)}{given})",
        "submit": f"dag.submit({name}, {draw(TEXTS)}, args=[{draw(TEXTS)}], conf={{'k': {draw(TEXTS)}}}{given})",
        "task": f"dag.task(task_id={name}{given})({draw(mostly(of('two'), of('late', 'notify', 'print', 'len') | JUNK, 20))})",
    }[kind]
    others = draw(st.lists(st.integers(0, number - 1), max_size=2)) if number else []
    return [f"x{number} = {made}", *(draw(mostly(of(f"x{n} >> x{number}"), _links(number, n), 3)) for n in others)]


def _links(number: int, other: int) -> Source:
    return of(
        f"x{number} << [x{other}]",
        f"[x{other}] >> x{number}",
        f"x{number}.expand(over=x{other})",
        f"x{number}.expand(over=x{other})",
        f"x{number}.as_teardown(setups=x{other})",
        f"x{number}.as_teardown(setups=[x{other}], on_failure_fail_dagrun=True)",
        f"x{number} >> x{other}",
        f"x{number} >> x{number}",
        f"x{other} >> a",
        f"x{other}.as_setup()",
    )


DAG_OPTIONS: Mapping[str, Source] = {
    "timezone": ZONES,
    "start_date": MOMENTS,
    "end_date": MOMENTS,
    "catchup": BOOLEANS,
    "missed": valid(of("'skip'", "'latest'")),
    "max_missed_runs_per_minute": COUNTS,
    "run_immediately": BOOLEANS,
    "description": TEXTS,
    "max_active_runs": COUNTS,
    "max_active_tasks": COUNTS,
    "dagrun_timeout": DURATIONS,
    "max_consecutive_failed_dag_runs": COUNTS,
    "fail_fast": BOOLEANS,
    "allow_backfills": BOOLEANS,
    "paused": BOOLEANS,
    "mode": valid(of("'batch'", "'each'")),
    "on_paused": valid(of("'drop'", "'keep'")),
    "params": valid(PARAMS),
    "extra_params": BOOLEANS,
    "deadlines": valid(listed(DEADLINES, 2)),
    "tags": valid(of("['x']", "['x', 'x']", "()")),
    "default_args": valid(options({**OPTIONS, **OF_KINDS["task"]}, 2).map(lambda given: f"dict({given[2:]})")),
    **CALLBACKS,
}


@st.composite
def dags(draw: DrawFn, number: int) -> list[str]:
    name = draw(mostly(of(f"'d{number}'"), of("'d'", "'x' * 251", "'a b'") | JUNK, 40))
    schedule = f", schedule={draw(SCHEDULES)}" if draw(st.integers(0, 4)) else ""
    head = f"with Dag({name}{schedule}{draw(options(DAG_OPTIONS, 4))}) as dag:"
    lines: list[str] = [line for task in range(draw(st.integers(0, 5))) for line in draw(tasks(task))] or ["pass"]
    at = draw(st.integers(0, len(lines)))
    return [head, *_grouped(lines, at if draw(st.integers(0, 3)) == 3 else len(lines), draw(mostly(of("'g'"), JUNK, 20)))]


def _grouped(lines: Sequence[str], at: int, group: str) -> list[str]:
    """From a line on, the tasks are in a group."""
    inner = [f"        {line}" for line in lines[at:]]
    return [*(f"    {line}" for line in lines[:at]), *([f"    with dag.group({group}):", *inner] if inner else [])]


SOURCES: SearchStrategy[str] = mostly(
    st.tuples(dags(1)) | st.tuples(dags(1), dags(2)), st.tuples(dags(1), st.lists(JUNK, max_size=2)), 20
).map(lambda parts: HEADER + "\n".join(line for part in parts for line in part) + "\n")
