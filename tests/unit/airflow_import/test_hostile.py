"""Files that cannot be read, and files that are read and hardly understood."""

from pathlib import Path
from typing import Any

import pytest

from tidegate.daemon.airflow_import.report import Translation
from tidegate.daemon.airflow_import.source import LARGEST, UnreadableFileError, parse_source, read_source
from tidegate.daemon.airflow_import.translate import translate_file, translate_source
from tidegate.schemas.authoring.build import build

HEAD = (
    "from datetime import datetime\nfrom airflow import DAG\n"
    "from airflow.operators.bash import BashOperator\nfrom airflow.operators.empty import EmptyOperator\n"
)
DAG = HEAD + "with DAG('d', start_date=datetime(2024, 1, 1), schedule=None) as dag:\n"


def translated(source: str) -> Translation:
    return translate_source(parse_source("file.py", source.encode()))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"x = (\n", "file.py:1: it is not valid Python: '(' was never closed"),
        (b"a = 1\nprint 'x'\n", "file.py:2: it is not valid Python"),
        (b"if True:\npass\n", "file.py:2: it is not valid Python"),
        (b"x = 1\nreturn 3\n", "file.py:2: it is not valid Python: 'return' outside function"),
        (b"x = 1\ny = (yield)\n", "file.py:2: it is not valid Python: 'yield' outside function"),
        (b"\tx = 1\n", "file.py:1: it is not valid Python"),
        (b"x = 1\ny = '\0'\n", "file.py:2: it has a NUL byte and is no Python file"),
        (b"\x7fELF\0\0", "file.py:1: it has a NUL byte"),
        (b"# -*- coding: klingon -*-\nx = 1\n", "file.py:1: unknown encoding"),
        (b"x = '\xff\xfe'\n", "save the file as UTF-8"),
        (b"x = " + b"(" * 5000 + b")" * 5000, "it is not valid Python: too many nested parentheses"),
        (b"x = " + b"-" * 100_000 + b"1\n", "nested too deeply"),
        (b"x = 1" + b"+1" * 100_000, "nested too deeply"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_an_unreadable_file_gets_one_sentence(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_bytes(content)

    with pytest.raises(UnreadableFileError) as raised:
        translate_file(path)

    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_too_large_or_not_there_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large.py"
    large.write_bytes(b"#" * (LARGEST + 1))

    with pytest.raises(UnreadableFileError, match="at most 4,000,000 can be read"):
        read_source(large)
    with pytest.raises(UnreadableFileError, match="No such file"):
        read_source(tmp_path / "missing.py")


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf# with a byte order mark\nx = 1\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"x = 1\r\ny = 2\r\n",
        b"x = 1\ry = 2\r",
        b"x = 1\n\x0cy = 2",
        b"",
        b"\n\n# only a comment",
        b"'''only a docstring'''",
    ],
)
def test_unusual_encodings_and_line_ends_are_read(content: bytes) -> None:
    result = translate_source(parse_source("file.py", content))

    assert result.omissions == ()
    compile(result.text, "file.py", "exec")


def test_nothing_of_the_file_is_executed(tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    path = tmp_path / "file.py"
    path.write_text(f"open({str(proof)!r}, 'w')\nimport os\nos.mkdir({str(proof)!r})\nraise SystemExit(3)\n")

    result = translate_file(path)

    assert not proof.exists()
    assert "raise SystemExit(3)" in result.text


def test_ten_thousand_lines_are_translated() -> None:
    lines = "".join(f"    t{n} = BashOperator(task_id='t{n}', bash_command='echo {n}', sla={n})\n" for n in range(1500))
    links = "".join(f"    t{n} >> t{n + 1}\n" for n in range(1499))
    plain = "".join(f"    x{n} = {n}\n" for n in range(7000))

    result = translated(DAG + lines + links + plain)

    assert len(result.omissions) == 1500
    assert result.text.count("dag.command(") == 1500


@pytest.mark.parametrize(
    ("body", "left_out"),
    [
        ("    exec('x = 1')\n", []),
        ("    globals()['x'] = EmptyOperator(task_id='x')\n", []),
        ("    print(getattr(dag, 'dag_id'))\n", []),
        ("    setattr(EmptyOperator, 'x', 1)\n", ["setattr(EmptyOperator, 'x', 1)"]),
        ("    T = EmptyOperator\n    T(task_id='x')\n", ["T = EmptyOperator", "T 'x'"]),
        (
            "    (EmptyOperator if True else BashOperator)(task_id='x')\n",
            ["EmptyOperator if True else BashOperator 'x'"],
        ),
        ("    [EmptyOperator][0](task_id='x')\n", ["[EmptyOperator][0] 'x'"]),
        ("    EmptyOperator(task_id=missing)\n", ["EmptyOperator(task_id=missing)"]),
        ("    x = lambda: EmptyOperator(task_id='x')\n    x()\n", []),
        ("    tasks = {}\n    tasks['a'] = EmptyOperator(task_id='a')\n    tasks['a'] >> EmptyOperator(task_id='b')\n", []),
        ("    tasks = []\n    tasks.append(EmptyOperator(task_id='a'))\n    tasks += [EmptyOperator(task_id='b')]\n", []),
        ("    while (n := 1) > 2:\n        EmptyOperator(task_id='x')\n", []),
        ("    a: EmptyOperator = EmptyOperator(task_id='a')\n", []),
        ("    a = b = EmptyOperator(task_id='a')\n    b >> EmptyOperator(task_id='c')\n", []),
        ("    pass; EmptyOperator(task_id='a'); pass\n", []),
    ],
)
def test_dynamic_code_is_translated_or_listed(body: str, left_out: list[str]) -> None:
    result = translated(DAG + body)

    assert [part.what for part in result.omissions] == left_out
    assert [dag.dag_id for dag in build(result.text, "file.py")] == ["d"]


def test_a_variable_that_is_set_twice_is_the_last_task() -> None:
    body = "    x = EmptyOperator(task_id='x')\n    x = EmptyOperator(task_id='y')\n    x >> EmptyOperator(task_id='z')\n"

    (dag,) = build(translated(DAG + body).text, "file.py")

    assert {task.task_id: task.upstream for task in dag.spec().tasks}["z"] == ("y",)


def test_a_remark_cannot_break_out_of_its_comment() -> None:
    result = translated(DAG + '    HttpSensor = missing(\'a\\nimport os\', """b\nimport os\n""")\n')

    assert "import os" in result.text
    assert all(line.strip().startswith("#") for line in result.text.splitlines() if "import os" in line)


@pytest.mark.parametrize(
    "function",
    [
        "def f(a): return np.sum(a)",
        "def f(a,\n      b=1): return np.sum(a)",
        "def f(a):\n  return np.sum(a)",
        'def f(a):\n  """Doc."""\n  return np.sum(a)',
        'def f(a):\n  # first\n  """Doc\n  of f.\n  """\n\n  # then\n  if a:\n    return np.sum(a)\n  return 0',
        'def f(a): """Doc."""; return np.sum(a)',
        "@decorated\ndef f(a): return np.sum(a)",
        "class A:\n  @decorated\n  def f(self, a): return np.sum(a)\n\n  def g(self):\n    pass\nf = A().f",
    ],
)
def test_a_function_imports_what_it_uses_however_it_is_laid_out(function: str) -> None:
    result = translated(f"import numpy as np\ndef decorated(f): return f\n{function}\n")

    code: dict[str, Any] = {}
    exec(result.text, code)  # noqa: S102 - the translation is what is tested
    assert (code["f"]([1, 2]), result.omissions, result.text.count("# first")) == (3, (), function.count("# first"))


@pytest.mark.parametrize("method", ["@tenacity.retry\n    def f(self): pass", "def f(self, tries=tenacity.TRIES): pass"])
def test_a_class_is_left_out_whose_methods_need_another_package_at_once(method: str) -> None:
    result = translated(f"import tenacity\nclass A:\n    {method}\n")

    assert [(part.what, part.line) for part in result.omissions] == [("class A:", 2)]


def test_decorators_of_methods_may_name_other_parts_of_the_class() -> None:
    source = "class A:\n    @property\n    def f(self): return 1\n\n    @f.setter\n    def f(self, to): pass\n"

    result = translated(source)

    assert (result.omissions, result.text.count("@f.setter")) == ((), 1)


def test_a_function_is_listed_whose_call_was_left_out() -> None:
    source = "from airflow.decorators import task\n@task\ndef f(x):\n    return x\n\n"

    result = translated(source + DAG + "    f(missing)\n")

    assert [(part.line, part.what) for part in result.omissions] == [(2, "def f"), (11, "@task 'f'")]
    assert '["false"]' in result.text
