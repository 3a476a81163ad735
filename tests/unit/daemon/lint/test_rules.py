"""Mistakes in DAG files that can be parsed, by table: the file, the line, the task, and what is wrong."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tidegate import Dag, Dataset
from tidegate.daemon.lint.installation import Installation, outlets_of, silent_inputs
from tidegate.daemon.lint.places import Places
from tidegate.daemon.lint.rules import findings_of
from tidegate.schemas.authoring.build import build
from tidegate.schemas.cluster import Cluster
from tidegate.schemas.dag import ParsedFile

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


def found(body: str, folder: Path, *, pools: Sequence[str] | None = None) -> list[str]:
    installation = None if pools is None else Installation(pools, ())
    mistakes, _ = findings_of(parsed(body), folder, (), installation, CLUSTERS)
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
    ],
)
def test_each_mistake_is_found_with_its_line(body: str, finding: str, folder: Path) -> None:
    first = found(body, folder)[0]

    assert first.startswith(finding.format(folder=folder))


def test_all_mistakes_of_a_task_are_found_at_once(folder: Path) -> None:
    body = "dag.submit('t', 'a.py', args=['{{ a'], conf={'spark.master': 'x'}, jars=['b.jar'])"

    assert len(found(body, folder)) == 4


def test_an_unknown_pool_is_found_if_the_pools_are_known(folder: Path) -> None:
    body = "dag.sql('t', 'SELECT 1', pool='repots')"

    assert found(body, folder) == []
    assert found(body, folder, pools=["default_pool", "reports"]) == ["3: t: pool 'repots' does not exist; did you mean reports?"]
    assert found(body, folder, pools=["x"]) == ["3: t: pool 'repots' does not exist; create it with `tidegate pools set`"]


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
