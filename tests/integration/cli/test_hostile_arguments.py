"""No argument of any command reaches Postgres as a value that it refuses."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cli.conftest import Cli
from tidegate.daemon.cli.app import tree

Command = Any
"""Typer does not export the types of its commands."""

RUNNING = {"daemon", "doctor", "standalone", "web"}
"""Commands that start servers, or wait for them."""

ENDLESS = {"follow", "watch", "wait"}


def commands(node: Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    if not hasattr(node, "list_commands"):
        yield path, node
        return
    for name in node.list_commands(None):
        if name not in RUNNING:
            yield from commands(node.get_command(None, name), (*path, name))


def kind(parameter: Any) -> Any:
    return parameter.type_descriptor.annotation


def given(parameter: Any, value: str) -> list[str]:
    return [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]


def hostile_lines() -> Iterator[list[str]]:
    """A command line for each number and span of each command, at the edge of its type; the rest is plain."""
    edges = {int: "9223372036854775808", list[int]: "9223372036854775808", float: "99999999999d"}
    for path, command in commands(tree()):
        for hostile in command.params:
            if kind(hostile) in edges and hostile.name not in ENDLESS:
                needed = [one for one in command.params if one.required and one is not hostile]
                plain = [word for one in needed for word in given(one, "1" if kind(one) is int else "x")]
                yield [*path, *plain, *given(hostile, edges[kind(hostile)])]


async def test_a_number_at_the_edge_of_its_type_is_answered_by_the_command(cli: Cli) -> None:
    lines = list(hostile_lines())
    answers = {" ".join(line): await cli(*line) for line in lines}
    assert len(lines) > 30
    wrong = {line: answer.err for line, answer in answers.items() if "Postgres" in answer.err or "raceback" in answer.err}
    assert wrong == {}


@pytest.mark.parametrize("command", ["dags next", "dags show", "runs trigger", "runs list", "backfills list"])
async def test_bytes_that_are_no_text_are_refused_at_the_door(cli: Cli, command: str) -> None:
    answer = await cli(*command.split(), "caf\udce9")
    assert (answer.code, answer.err) == (2, "tidegate: 'caf\\udce9' is not valid UTF-8; correct it\n")


@pytest.mark.parametrize("lifetime", ["0s", "3651d", "99999999999d"])
async def test_a_token_has_a_lifetime_that_a_calendar_knows(cli: Cli, lifetime: str) -> None:
    answer = await cli("tokens", "create", "anna", "--expires", lifetime)
    assert answer.code == 2
    assert "a token is valid for 1s to 3650d" in answer.err
