"""Mistakes in DAG files that can be parsed, by table: the file, the line, the task, and what is wrong."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from tidegate import Dag, Dataset
from tidegate.daemon.lint.installation import Installation, outlets_of, silent_inputs
from tidegate.daemon.lint.places import Places
from tidegate.daemon.lint.rules import findings_of
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner.template import DATED, render
from tidegate.schemas.authoring.build import build
from tidegate.schemas.cluster import Cluster
from tidegate.schemas.dag import ParsedFile, SqlTask
from tidegate.schemas.run import RunContext

CLUSTERS = {"nightly": Cluster(remote="sc://m1:15002")}
HEAD = "from tidegate import Dag, Dataset, Secret\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/report.py").write_text("")
    (tmp_path / "lib.zip").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


def parsed(body: str) -> ParsedFile:
    source = f"{HEAD}with Dag('d') as dag:\n    {body}\n" if body.startswith("dag.") else HEAD + body
    return ParsedFile(path="d.py", digest="0", source=source, dags=tuple(dag.spec() for dag in build(source, "d.py")))


def found(body: str, folder: Path) -> list[str]:
    mistakes, _ = findings_of(parsed(body), folder, (), None, CLUSTERS)
    return [f"{it.line}: {it.task_id}: {it.reason}" for it in mistakes]


@pytest.mark.parametrize(
    "body",
    [
        "dag.submit('t', 'jobs/report.py', args=['{{ ds }}'], py_files=['jobs', 's3a://b/lib.zip', '{{ params.lib }}'])",
        "dag.submit('t', 'jobs/report.py', files=['lib.zip'], packages=['org.x:y:1'], conf={'spark.x': Secret('s')})",
        "dag.command('t', ['bash', '-c', 'echo {{ run_id }} {not a template}'], cwd='jobs', env={'A': '{{ params.a }}'})",
        "dag.command('t', ['true'], cwd='{{ params.folder }}')",
        "dag.sql('t', 'SELECT 1', pool='anything')",
        "dag.sql('t', 'SELECT 1', cluster='nightly')",
        "dag.empty('t')",
    ],
)
def test_what_works_has_no_finding(body: str, folder: Path) -> None:
    assert found(body, folder) == []


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        (
            "dag.sql('t', 'SELECT 1', cluster='nihgtly')",
            "3: t: cluster 'nihgtly' is not in TIDEGATE_SPARK_CLUSTERS; did you mean nightly?",
        ),
        (
            "dag.submit('t', 'jobs/reprot.py')",
            "3: t: application 'jobs/reprot.py' does not exist in the DAG folder {folder}; did you mean report.py?",
        ),
        ("dag.submit('t', '../out.py')", "3: t: application '../out.py' is not below the DAG folder {folder}"),
        ("dag.submit('t', 'jobs')", "3: t: application 'jobs' does not exist in the DAG folder {folder}"),
        (
            "dag.submit('t', 'jobs/report.py', jars=['gone.jar'])",
            "3: t: jars 'gone.jar' does not exist in the DAG folder {folder}",
        ),
        (
            "dag.submit('t', 'jobs/report.py', packages=['x'])",
            "3: t: packages 'x': a package is named by Maven coordinates, group:artifact:version",
        ),
        (
            "dag.submit('t', 'jobs/report.py', conf={'spark.master': 'local'})",
            "3: t: conf 'spark.master' is set by the scheduler and cannot be set by a task",
        ),
        (
            "dag.submit('t', 'jobs/report.py', conf={'executor.memory': '{{ x }}'})",
            "3: t: conf 'executor.memory' cannot be rendered: there is no 'x'",
        ),
        (
            "dag.command('t', ['true'], cwd='job')",
            "3: t: cwd 'job' does not exist in the DAG folder {folder}; did you mean jobs?",
        ),
        (f"dag.command('t', ['true'], cwd='{'x' * 300}')", "3: t: a file cannot be looked up: [Errno 36] File name too long: "),
        ("dag.command('t', ['true'], cwd='loop')", "3: t: "),
        ("dag.command('t', ['echo', '{{ dss }}'])", "3: t: argument 2 cannot be rendered: there is no 'dss'; did you mean ds?"),
        (
            "dag.command('t', ['true'], env={'A': '{{ ds'})",
            "3: t: env 'A' is not a valid template: unexpected end of template, expected 'end of print statement'. (line 1)",
        ),
        (
            "dag.sql('t', 'SELECT {{ results.t0 }}')",
            "3: t: the SQL cannot be rendered: there is no 't0' in results; no task comes before it",
        ),
        (
            "dag.command('t', ['{{ results.all }}', '{{ item }}']).expand(over=dag.command('all', ['true']))",
            "3: t: argument 1 cannot be rendered: there is no 'all' in results: an instance has its element of that list as item",
        ),
    ],
)
def test_each_mistake_is_found_with_its_line(body: str, finding: str, folder: Path) -> None:
    first = found(body, folder)[0]

    assert first.startswith(finding.format(folder=folder))


def test_all_mistakes_of_a_task_are_found_at_once(folder: Path) -> None:
    body = "dag.submit('t', 'a.py', args=['{{ a'], conf={'spark.master': 'x'}, jars=['b.jar'])"

    assert len(found(body, folder)) == 4


@pytest.mark.parametrize(
    ("pools", "notes"),
    [
        (None, []),
        (["repots"], []),
        (["default_pool", "reports"], ["3: t: pool 'repots' does not exist; did you mean reports?"]),
        (["x"], ["3: t: pool 'repots' does not exist; tasks wait until `tidegate pools set` creates it"]),
    ],
)
def test_an_unknown_pool_is_noted_if_the_pools_are_known(folder: Path, pools: Sequence[str] | None, notes: list[str]) -> None:
    """A daemon takes the file: the pool may come later."""
    installation = None if pools is None else Installation(pools, ())

    mistakes, noted = findings_of(parsed("dag.sql('t', 'SELECT 1', pool='repots')"), folder, (), installation, CLUSTERS)

    assert (mistakes, [f"{it.line}: {it.task_id}: {it.reason}" for it in noted]) == ((), notes)


MANY = """
COMMON = "{{ dss }}"
with Dag("first", default_args={"pool": "p"}) as first:
    with first.group("files"):
        first.sql("load", "SELECT {{ dss }}")
    @first.task(
        env={"A": "{{ dsss }}"},
    )
    def work(spark, run): ...
for name in ("a", "b"):
    first.sql(task_id=name, sql=f"SELECT 1, {COMMON}")
    first.sql("computed_" + name, sql=COMMON)
"""


def test_the_line_is_that_of_the_text_else_of_the_task_and_else_unknown(folder: Path) -> None:
    lines = [line.partition(": the SQL")[0].partition(": env")[0] for line in found(MANY, folder)]

    assert sorted(lines) == ["3: computed_a", "3: computed_b", "6: files.load", "8: work", "None: a", "None: b"]


def test_a_file_that_this_python_cannot_read_has_no_lines() -> None:
    assert Places("match = (").line_of("t", "x") is None


EVENTS = """
a, b = Dataset("lake://flights"), Dataset("lake://reports")
with Dag("maker") as maker:
    maker.empty("make", outlets=[a])
with Dag("reader", schedule=Dataset("lake://fligths") & a & b) as reader:
    pass
"""


@pytest.mark.parametrize(
    ("installation", "notes"),
    [
        (None, ["6: no task of these files updates dataset lake://fligths; did you mean lake://flights?"]),
        (
            Installation(("default_pool",), {"lake://reports"}),
            ["6: dataset lake://fligths has had no event, and no task updates it; did you mean lake://flights?"],
        ),
        (Installation(("default_pool",), {"lake://reports", "lake://fligths"}), []),
    ],
)
def test_inputs_that_nothing_updates_are_noted(installation: Installation | None, notes: list[str], folder: Path) -> None:
    file = parsed(EVENTS)

    mistakes, noted = findings_of(file, folder, outlets_of(file.dags), installation, {})

    assert mistakes == ()
    assert [f"{note.line}: {note.reason}" for note in noted] == notes


@pytest.mark.parametrize(
    ("uri", "note"),
    [
        (
            "lake://penguin/clean",
            ["no task of these files updates dataset lake://penguin/clean; did you mean lake://penguins/clean?"],
        ),
        ("lake://penguin/claen", []),
        ("lake://whales/clean", []),
        ("lake://penguins/clean/all", []),
    ],
)
def test_an_input_is_like_an_outlet_if_one_part_differs_by_a_letter(uri: str, note: list[str]) -> None:
    spec = Dag("reader", schedule=Dataset(uri)).spec()

    assert [mistake.reason for mistake in silent_inputs(spec, {"lake://penguins/clean"}, None)] == note


DATASET = "Dataset('lake://a')"
UNDATED = "and fails, because the schedule of the DAG gives runs no dates; use {{ "
OR_A_DATE = " }}, or give each run a date by `runs trigger --logical-date`"


def noted(schedule: str, sql: str, folder: Path) -> list[str]:
    body = f"with Dag('d', schedule={schedule}) as dag:\n    dag.empty('a')\n    dag.sql('t', {sql!r})\n"
    file = parsed(f"from tidegate import DatasetOrTime, DatasetsAndTime, cron\n{body}")
    mistakes, notes = findings_of(file, folder, outlets_of(file.dags), None, {})
    assert mistakes == ()
    return [f"{note.line}: {note.task_id}: {note.reason}" for note in notes]


@pytest.mark.parametrize("schedule", ["None", DATASET])
def test_a_template_with_a_date_is_noted_if_no_run_has_dates(schedule: str, folder: Path) -> None:
    assert noted(schedule, "SELECT '{{ ds }}'", folder) == [
        f"5: t: the SQL reads 'ds', {UNDATED}run_after.strftime('%Y-%m-%d'){OR_A_DATE}"
    ]


def test_a_template_with_a_date_is_noted_if_only_timed_runs_have_dates(folder: Path) -> None:
    schedule = f"DatasetOrTime({DATASET}, cron('0 0 * * *'))"

    assert noted(schedule, "SELECT {{ ds }} {{ data_interval_end }}", folder) == [
        "5: t: the SQL reads 'data_interval_end', and fails in runs by dataset, which have no dates;"
        " use {{ data_interval_end | default(run_after) }}",
        "5: t: the SQL reads 'ds', and fails in runs by dataset, which have no dates;"
        " use {{ ds | default(run_after.strftime('%Y-%m-%d')) }}",
    ]
    assert noted(schedule, "SELECT {{ ds if run.logical_date else run_id }}", folder) == []


NONE = "and that is None, because the schedule of the DAG gives runs no dates; use "


def noted_function(schedule: str, body: str, folder: Path, options: str = "") -> list[str]:
    head = f"from tidegate import DatasetOrTime, cron\nwith Dag('d', schedule={schedule}) as dag:\n"
    file = parsed(f"{head}    @dag.task{options}\n    def t(spark, r):\n        {body}\n")
    return [
        f"{note.line}: {note.task_id}: {note.reason}" for note in findings_of(file, folder, outlets_of(file.dags), None, {}).notes
    ]


@pytest.mark.parametrize("options", ["", "(retries=1)", "(task_id='t')"])
def test_a_function_that_reads_a_date_is_noted_if_no_run_has_dates(options: str, folder: Path) -> None:
    assert noted_function("None", "print(1,\n r.ds, r.run_id, r.ds)", folder, options) == [
        f"7: t: the function reads 'run.ds', {NONE}`run.run_after.strftime('%Y-%m-%d')`"
        ", or give each run a date by `runs trigger --logical-date`"
    ]


def test_a_function_that_reads_a_date_is_noted_if_only_timed_runs_have_dates(folder: Path) -> None:
    assert noted_function(f"DatasetOrTime({DATASET}, cron('0 0 * * *'))", "return r.data_interval_end", folder) == [
        "6: t: the function reads 'run.data_interval_end', and that is None in runs by dataset, which have no dates;"
        " use `run.data_interval_end or run.run_after`"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "return r.ds or 'none'",
        "return r.ds if r.logical_date else r.run_id",
        "assert r.ds",
        "return r.ds is None",
        "return r.ds if r.run_type == 'scheduled' else ''",
        "return [] if not r.events else r.run_after",
        "day = r.ds; return day or 'none'",
        "return 'none' if (day := r.ds) is None else day",
        "day: str | None = r.ds; return day or 'none'",
        "try: return r.ds.upper()\n        except AttributeError: return 'none'",
        "return spark.ds",
    ],
)
def test_a_function_that_looks_whether_there_is_a_date_is_not_noted(body: str, folder: Path) -> None:
    assert noted_function("None", body, folder) == []


def test_a_copy_of_a_date_that_nothing_looks_at_is_noted(folder: Path) -> None:
    assert len(noted_function("None", "day = r.ds; n = r.run_id; return day if n else ''", folder)) == 1
    assert len(noted_function("None", "try: return r.ds.upper()\n        finally: print()", folder)) == 1


def test_a_function_is_not_noted_if_another_has_its_name(folder: Path) -> None:
    other = "return r.ds\nwith Dag('e', schedule=cron('0 0 * * *')) as other:\n    @other.task\n    def t(spark, r): pass"

    assert noted_function("None", other, folder) == []


def test_a_function_is_not_noted_if_each_run_of_the_schedule_has_dates(folder: Path) -> None:
    assert noted_function("cron('0 0 * * *')", "return r.ds", folder) == []


def test_a_template_that_shows_a_date_of_the_run_is_noted(folder: Path) -> None:
    assert noted("None", "SELECT '{{ run.ds }}' {{ run.ts or '' }} {% if run.ds %}{{ run.logical_date }}{% endif %}", folder) == [
        f"5: t: the SQL shows 'run.ds', {NONE}{{{{ run_after.strftime('%Y-%m-%d') }}}}{OR_A_DATE[3:]}"
    ]


@pytest.mark.parametrize("schedule", ["cron('0 0 * * *')", f"DatasetsAndTime({DATASET}, cron('0 0 * * *'))"])
def test_a_template_with_a_date_is_not_noted_if_each_run_of_the_schedule_has_dates(schedule: str, folder: Path) -> None:
    assert noted(schedule, "SELECT {{ ds }}", folder) == []


@pytest.mark.parametrize("name", DATED)
@pytest.mark.parametrize("schedule", [DATASET, f"DatasetOrTime({DATASET}, cron('0 0 * * *'))"])
def test_what_a_note_proposes_can_be_rendered_without_dates(schedule: str, name: str, folder: Path) -> None:
    (note,) = noted(schedule, f"{{{{ {name} }}}}", folder)
    run = RunContext(dag_id="d", run_id="manual__1", run_type="manual", run_after=datetime(2013, 1, 2, 3, tzinfo=UTC), params={})
    task = SqlTask(task_id="t", sql="SELECT 1")
    spec = SubmissionSpec(submission_id=UUID(int=1), try_number=1, task=task, run=run, dag_path="d.py", source="")

    proposed = note[note.index("{{") : note.index("}}") + 2]

    assert render(proposed, spec, "the SQL") == {
        "ds": "2013-01-02",
        "ds_nodash": "20130102",
        "ts": "2013-01-02T03:00:00+00:00",
        "ts_nodash": "20130102T030000",
    }.get(name, "2013-01-02 03:00:00+00:00")


def test_a_doubtful_filter_is_noted_with_its_line(folder: Path) -> None:
    (note,) = noted("Dataset('lake://a', where='extra.rows > 3')", "SELECT 1", folder)

    assert note.startswith("3: None: filter 'extra.rows > 3' has fields of the extra behind 'extra.': leave that out")
