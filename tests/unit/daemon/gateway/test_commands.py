"""Errors as programs read them, without commands, and as a terminal shows those of a server."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.daemon.gateway.commands import with_commands, with_operations
from tidegate.schemas.wire.event import ADVICE

ROOT = Path(__file__).parents[4]
PLACES = (
    "handlers",
    "schemas/queries",
    "daemon/api",
    "daemon/gateway",
    "daemon/identity",
    "daemon/read_model",
    "daemon/web/pages",
)
OF_NO_REQUEST = ("daemon/idle.py", "daemon/supervisor.py")
RAISED = ("daemon/*.py", "daemon/intake/resumption.py", "daemon/intake/stepping_over.py", *(f"{it}/**/*.py" for it in PLACES))


def text_of(node: ast.expr) -> str:
    """A text with `x1` for what it is filled with."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) for part in parts)
        case ast.FormattedValue():
            return "x1"
        case _:
            return ""


def texts(tree: ast.AST) -> Iterator[str]:
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inside:
            yield text_of(node)


def quoting() -> list[str]:
    """The sentences that quote a command, of modules whose errors requests get: those in an error, and all of handlers."""
    found = set()
    for path in {path for pattern in RAISED for path in ROOT.glob(pattern)} - {ROOT / name for name in OF_NO_REQUEST}:
        tree = ast.parse(path.read_text())
        is_handler = path.is_relative_to(ROOT / "handlers")
        raised = [tree] if is_handler else [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
        found |= {text for node in raised for text in texts(node) if "`tidegate " in text}
    return sorted(found)


@pytest.mark.parametrize("text", quoting())
def test_programs_read_no_command_and_a_terminal_gets_it_back(text: str) -> None:
    said = with_operations(text)

    assert "tidegate " not in said
    assert with_commands(said) == text or "`tidegate doctor`" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("there is no DAG 'a'; `tidegate dags list` shows all", "there is no DAG 'a'; `GET /dags` shows all"),
        ("no run; `tidegate runs list 'a b/c'` shows all", "no run; `GET /runs?dag_id=a%20b%2Fc` shows all"),
        ("no pool 'x'; `tidegate pools set x SLOTS` makes it", "no pool 'x'; `PUT /pools/x` makes it"),
        ("it is slow; `tidegate doctor` names it; wait", "it is slow; wait"),
        ("the quote is open; `tidegate runs list 'a` shows all", "the quote is open"),
        ("correct it (`tidegate topics schema` prints the shape), and discard it", "correct it, and discard it"),
        ("release it (`tidegate dags list` names it), and replay it", "release it (`GET /dags` names it), and replay it"),
        ("a `name` stays; so does a sentence", "a `name` stays; so does a sentence"),
    ],
)
def test_a_command_is_an_operation_or_its_clause_is_left_out(text: str, said: str) -> None:
    assert with_operations(text) == said


def test_the_sentences_that_quote_commands_are_found() -> None:
    assert sum(bool(re.search(r"`tidegate dags list` shows all", text)) for text in quoting()) >= 2


def test_fields_of_a_body_are_options_of_its_command() -> None:
    said = "it goes back (send `new_topic=true` or `new_topic=false`)"

    assert with_commands(said) == "it goes back (send `--new-topic` or `--same-topic`)"


@pytest.mark.parametrize("advice", ADVICE.values(), ids=list(ADVICE))
def test_the_advice_about_a_dead_letter_names_no_command(advice: str) -> None:
    said = with_operations(f"dead letter 5 would be refused again (its shape): {advice}")

    assert said.startswith("dead letter 5 would be refused again (its shape): ")
    assert "tidegate " not in said
