"""Commands in sentences as links to pages."""

import re

import msgspec
import pytest

from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.command_links import PAGES, Target, command_link, with_links
from tidegate.daemon.web.screen import Form, Screen


def any_right(_right: str, *_dags: str) -> bool:
    return True


def only_views(right: str, *_dags: str) -> bool:
    return right == "view"


def read_of(screen: Screen | Form) -> tuple[str, set[str]]:
    """The path of a page, and its parameters."""
    read = screen.read if isinstance(screen, Screen) else screen.preview
    return read.path, {field.name for field in msgspec.structs.fields(read.params)}


def test_each_address_is_that_of_a_page_with_these_parameters() -> None:
    for command, page in PAGES.items():
        target = Target(page, [str(number) for number in range(page.arguments)], dict.fromkeys(page.options, "x"))
        address, _, query = target.address.partition("?")
        names = {pair.partition("=")[0] for pair in query.split("&")} - {""}
        found = [known for path, known in map(read_of, SCREENS) if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), address)]
        assert any(names <= known for known in found), command


@pytest.mark.parametrize(
    ("command", "address", "label"),
    [
        ("tidegate dags unpause daily", "/dags/daily/pause", "Unpause daily…"),
        ("tidegate dags unpause 'a b'", "/dags/a%20b/pause", "Unpause a b…"),
        ("tidegate tasks clear d r t --yes", "/dags/d/runs/r/clear?task=t", "Clear t…"),
        ("tidegate topics resume a.b/3 --at earliest", "/topics/resume?partition=a.b%2F3", "Resume a.b/3…"),
        ("tidegate pools set '<b>' SLOTS", "/queue/slots?name=%3Cb%3E", "Set the slots of &lt;b&gt;…"),
        ("tidegate deadletters list --state all", "/dead-letters?state=all", "the page of dead letters"),
        ("tidegate backfills dates 2 --state failed", "/backfills/2?state=failed", "the page of backfill 2"),
        ("tidegate losses settle 3 --because TEXT", "/losses/3/settle", "Settle loss 3…"),
    ],
)
def test_a_command_with_a_page_is_a_link(command: str, address: str, label: str) -> None:
    assert command_link(command, any_right) == f'<a href="{address}">{label}</a>'


@pytest.mark.parametrize(
    "command",
    [
        "tidegate daemon",
        "tidegate migrate",
        "tidegate datasets publish lake://a",
        "tidegate dags unpause",
        "tidegate tasks clear d r t u --yes",
        "tidegate runs cancel daily RUN",
        "tidegate dags unpause 'a",
        "tidegate losses list --all",
        "tidegate deadletters list --reason schema",
        "tidegate backfills dates 2 --state=failed",
    ],
)
def test_another_command_stays(command: str) -> None:
    assert command_link(command, any_right) == f"<code>{command.replace(chr(39), '&#39;')}</code>"


def test_without_the_right_a_command_stays() -> None:
    asked: list[tuple[str, ...]] = []

    def may(right: str, *dags: str) -> bool:
        asked.append((right, *dags))
        return False

    commands = ("tidegate dags unpause d", "tidegate runs cancel d r", "tidegate backfills resume 3", "tidegate pools set p 1")

    assert [str(command_link(command, may)) for command in commands] == [f"<code>{command}</code>" for command in commands]
    assert asked == [("edit", "d"), ("edit", "d"), ("operate",)]


@pytest.mark.parametrize("command", ["tidegate backfills cancel 3 --kill", "tidegate backfills set 3 --pool NAME"])
def test_a_command_with_an_option_that_the_table_does_not_name_stays(command: str) -> None:
    assert command_link(command, any_right, ["d"]) == f"<code>{command}</code>"


def test_a_backfill_is_linked_for_a_user_of_all_its_dags_where_they_are_known() -> None:
    text, command = "`tidegate backfills retry 3` lets it go on", "<code>tidegate backfills retry 3</code>"
    link = '<a href="/backfills/3/retry">Retry backfill 3…</a>'

    def may(right: str, *dags: str) -> bool:
        return right == "backfill" and "other" not in dags

    links = [with_links(text, may, dags).partition(" lets")[0] for dags in ((), ("a", "b"), ("a", "other"))]
    assert links == [command, link, command]


def test_a_sentence_keeps_its_other_words() -> None:
    text = "there is no DAG '<i>'; `tidegate dags list` shows all, `tidegate daemon` starts one, `a` is no command"

    assert with_links(text, only_views) == (
        'there is no DAG &#39;&lt;i&gt;&#39;; <a href="/dags">the page of all DAGs</a> shows all,'
        " <code>tidegate daemon</code> starts one, `a` is no command"
    )
