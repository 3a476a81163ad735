"""The documentation: its links, its style, its generated pages, and each example in it that needs no server."""

import ast
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from tests.documents import LINKING, PAGES, ROOT, Block, blocks, calls, steps, unit_of, write_files
from tidegate.daemon.cli.app import app, run
from tidegate.daemon.docs import generate
from tidegate.daemon.duties.receivers.webhook import signature
from tidegate.daemon.settings import PREFIX, Settings
from tidegate.schemas.dag import TriggerRule, WeightRule
from tidegate.schemas.wire import envelope
from tidegate.schemas.wire.event import INCOMING, Kind
from tidegate.schemas.wire.openlineage import LineageEvent

LANGUAGES = {"python", "console", "json", "ini", "sql", "text", "yaml", "{toctree}"}
"""Languages that are tested, here, in `tests/acceptance/test_documents.py`, or, of `yaml`, in `tests/unit/daemon/metrics/`.
`text` is for tables, `{toctree}` for the site."""

FOR_DEVELOPERS = [ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("[a-z]*/README.md")), *sorted(ROOT.glob("tests/*/README.md"))]

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*(?:sudo |export )?(?:tidegate|make|curl|TIDEGATE_)\b")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", generate.PAGES)
def test_the_generated_pages_are_up_to_date(page: str) -> None:
    written = (generate.FOLDER / page).read_text()

    assert generate.PAGES[page]() == written, "stale; run: .venv/bin/python daemon/docs/generate.py"


def test_the_settings_page_describes_every_setting() -> None:
    page = generate.settings_page()

    assert [name for name in Settings.__struct_fields__ if f"`{PREFIX}{name.upper()}`" not in page] == []
    assert "|  |\n" not in page


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    links = [link for link in _LINK.findall(_prose(page)) if "://" not in link]

    assert [link for link in links if not _leads_somewhere(page, link)] == []


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_for_developers_name_files_and_folders_that_exist(page: Path) -> None:
    names = re.findall(r"`([\w./-]+(?:\.(?:py|sql|md|html|toml|json)|/))`", page.read_text())

    assert [name for name in names if not (ROOT / name).exists() and not _ending_with(name)] == []


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_name_of_a_file_is_defined_in_it(page: Path) -> None:
    """`` `Name` of `file.py` ``, also of several names."""
    said = re.findall(r"((?:`\w+`(?:, | and )?)+) (?:of|in) `([\w/]+\.py)`", page.read_text())

    pairs = [(name, file) for names, file in said for name in re.findall(r"`(\w+)`", names)]
    assert [f"{name} of {file}" for name, file in pairs if not any(_defines(path, name) for path in _ending_with(file))] == []


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_for_developers_name_targets_that_exist(page: Path) -> None:
    named = re.findall(r"(?:^    |`)make ([a-z][\w-]*)", page.read_text(), re.MULTILINE)

    unknown = [target for target in named if not _is_target(target)]
    assert unknown == [], f"{page.relative_to(ROOT)}: the Makefile has no target {unknown}"


def _is_target(name: str) -> bool:
    return f"\n{name}:" in (ROOT / "Makefile").read_text()


def _ending_with(name: str) -> list[Path]:
    """The files and folders whose paths end so."""
    end = f"/{name.rstrip('/')}"
    return [path for written, path in _tree().items() if written.endswith(end)]


@cache
def _tree() -> Mapping[str, Path]:
    """The files and folders, by their paths as they are written below the root."""
    folders = ("schemas", "handlers", "events", "daemon", "tests")
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts)
    return {f"/{path.relative_to(ROOT)}": path for path in paths}


def _defines(path: Path, name: str) -> bool:
    return re.search(rf"^ *(?:(?:async )?def |class )?{name}\b *[(:=\[]", path.read_text(), re.MULTILINE) is not None


def test_the_readme_names_every_command() -> None:
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| `")]
    lacking = [name for name, _ in generate._commands() if not any(_names_command(row, name) for row in rows)]

    assert lacking == []


def _names_command(row: str, name: str) -> bool:
    return all(f"`{word}`" in row.split(" | ", maxsplit=1)[0] for word in name.split()[1:])


@pytest.mark.parametrize("kind", [TriggerRule, WeightRule])
def test_the_page_on_dags_has_every_rule(kind: type[TriggerRule | WeightRule]) -> None:
    page = (ROOT / "schemas/docs/writing-dags.md").read_text()

    assert [rule for rule in kind if f"`{rule}`" not in page and f'"{rule}"' not in page] == []


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the packages of make docs are not installed")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "-c", "daemon/docs", "-d", str(tmp_path / "trees")]

    command = [sys.executable, "-m", "sphinx", *options, ".", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (built.returncode, built.stderr) == (0, "")
    assert (tmp_path / "site/daemon/docs/index.html").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_sentence_has_a_line_of_its_own(page: Path) -> None:
    lines = [line for line in _prose(page).splitlines() if not line.startswith("|")]

    assert [line for line in lines if re.search(r"[a-z)`][.?!] [A-Z]", line)] == []


def test_every_block_names_a_language_that_is_tested() -> None:
    assert [str(block) for block in blocks() if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_examples_compile(block: Block) -> None:
    compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("block", [block for block in blocks("python") if "Dag(" in block.text], ids=str)
def test_dag_file_examples_parse(block: Block, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_files(block.page, tmp_path)
    (tmp_path / (block.file or "example.py")).write_text(block.text)
    for application in re.findall(r'submit\("\w+", "([\w.]+)"', block.text):
        (tmp_path / application).touch()

    code = run(["check", str(tmp_path), "--json"])

    assert code == 0, "".join(capfd.readouterr())


@pytest.mark.parametrize("block", [block for block in blocks("python") if "def test_" in block.text], ids=str)
def test_examples_of_tests_pass(block: Block) -> None:
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102 - an example of ours

    for name in [name for name in names if name.startswith("test_")]:
        names[name]()


@pytest.mark.parametrize(
    "block", [it for it in blocks("python") if it.file is None and not re.search("Dag\\(|localhost", it.text)], ids=str
)
def test_other_python_examples_run(block: Block) -> None:
    """Those of files in a DAG folder run in `tests/integration/spark/test_submit.py`."""
    exec(block.text, {})  # noqa: S102 - an example of ours


def test_the_example_verifies_the_signature_of_webhooks() -> None:
    names: dict[str, Any] = {}
    (example,) = (block for block in blocks("python") if "def is_genuine" in block.text)
    exec(example.text, names)  # noqa: S102 - an example of ours
    body, now = b"{}", int(time.time())
    headers = {"X-Tidegate-Timestamp": str(now), "X-Tidegate-Signature": signature(body, "secret", now)}
    old = {"X-Tidegate-Timestamp": str(now - 3600), "X-Tidegate-Signature": signature(body, "secret", now - 3600)}

    assert names["is_genuine"](headers, body, b"secret")
    assert not names["is_genuine"](headers, b"{ }", b"secret")
    assert not names["is_genuine"](headers, body, b"another secret")
    assert not names["is_genuine"](old, body, b"secret")


@pytest.mark.parametrize("block", blocks("console"), ids=str)
def test_commands_are_valid(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bash, the command line, the Makefile and the settings accept them."""
    for command, _ in steps(block):
        subprocess.run(["/bin/bash", "-n", "-c", command], check=True)
        for args in calls(command, "tidegate"):
            _parse(args)
        for args in calls(command, "make"):
            assert _is_target(args[0])
        for name in re.findall(rf"\b{PREFIX}(\w+)", command):
            assert name.lower() in Settings.__struct_fields__


@pytest.mark.parametrize("block", blocks("console"), ids=str)
def test_a_command_stands_behind_a_dollar_sign(block: Block) -> None:
    """What stands behind none is an output, of which nothing is checked without a server."""
    lines = block.text.splitlines()
    outputs = [line for step in steps(block) for line in step.output.splitlines()]

    assert lines[0].startswith("$ "), f"{block}: write `$ ` before the first command"
    commands = [line for line in outputs if _COMMAND.match(line)]
    assert commands == [], f"{block}: write `$ ` before {commands}"


@pytest.mark.parametrize(
    "command",
    [
        "tidegate lint x",
        "/opt/tidegate/bin/tidegate lint x | jq .",
        "TIDEGATE_WEB_PORT=8080 X=1 tidegate lint x",
        "sudo -u tidegate tidegate lint x",
        "sudo -u tidegate TIDEGATE_X=1 env Y=2 tidegate lint x 2>&1",
        "for f in a b; do tidegate lint x; done",
        "if ! tidegate lint x > out; then echo; fi",
        "eval $(tidegate lint x)",
        'echo "$(tidegate lint x)"',
        'TOKEN="$(tidegate lint x | jq -r .token)" curl -sS',
        "cd /srv && (tidegate lint x)",
    ],
)
def test_calls_of_a_program_are_found_wherever_they_stand(command: str) -> None:
    assert list(calls(command, "tidegate")) == [["lint", "x"]]


@pytest.mark.parametrize("command", ["echo tidegate lint x", "cat tidegate", "echo 'tidegate; x'", "X=tidegate echo lint x"])
def test_a_word_is_no_call_of_a_program(command: str) -> None:
    assert list(calls(command, "tidegate")) == []


@pytest.mark.parametrize("block", [block for block in blocks("text") if "  " in block.text.split("\n")[0].strip()], ids=str)
def test_tables_have_the_columns_that_a_command_prints(block: Block) -> None:
    titles = re.split(" {2,}", block.text.split("\n")[0].strip())
    sources = "".join(path.read_text() for path in (ROOT / "daemon/cli").rglob("*.py"))

    assert [title for title in titles if f'"{title}"' not in sources] == []


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_examples_are_events_of_the_kind_they_name(block: Block) -> None:
    kind = Kind(block.info.split()[1])
    decode: Any = envelope.decode if kind in INCOMING else envelope.decode_state

    event = decode(kind, [], block.text.encode())
    event = event[1] if isinstance(event, tuple) else event

    written = msgspec.json.decode(block.text)
    if isinstance(event, LineageEvent):
        assert event.updates
    else:
        assert written.get("data", written).keys() <= set(event.__struct_fields__)


READS = {"daemon": {"TIDEGATE_DAGS_FOLDER", "TIDEGATE_SPOOL_DIR"}, "web": {"TIDEGATE_SPOOL_DIR", "TIDEGATE_WEB_HOSTS"}}
"""The settings without which the unit of a command lacks something."""


@pytest.mark.parametrize("block", blocks("ini"), ids=str)
def test_units_of_systemd_are_valid(block: Block, tmp_path: Path) -> None:
    unit = unit_of(block)
    program = unit["Service"]["ExecStart"].split()

    _parse(program[1:])
    service = unit["Service"]
    assert service["User"] not in ("", "root")
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    assert (unit["Unit"]["StartLimitIntervalSec"], service["Restart"]) == ("0", "always")
    given = dict(variable.split("=", 1) for variable in service["Environment"].split())
    assert READS[program[1]] <= given.keys()
    folders = [value for name, value in given.items() if name.endswith(("_FOLDER", "_DIR"))]
    paths = [service["WorkingDirectory"], service["EnvironmentFile"], program[0], *folders]
    assert [path for path in paths if not path.startswith("/")] == []
    if systemd := shutil.which("systemd-analyze"):
        text = block.text.replace(program[0], shutil.which("true") or "/bin/true")
        (tmp_path / "tidegate.service").write_text(text)
        subprocess.run([systemd, "verify", str(tmp_path / "tidegate.service")], check=True)


def _parse(args: list[str]) -> None:
    """Parse the arguments of `tidegate` without running the command."""
    root = _without_actions()
    with root.make_context("tidegate", list(args)) as context:
        root.invoke(context)


@cache
def _without_actions() -> Any:
    """The commands of `tidegate`, which do nothing."""
    root: Any = typer.main.get_command(app)
    for command in (
        *root.commands.values(),
        *(leaf for group in root.commands.values() for leaf in getattr(group, "commands", {}).values()),
    ):
        command.callback = lambda **_: None
    return root


def _prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> list[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    return [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in _HEADING.findall(_prose(page))]
