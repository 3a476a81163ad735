"""A log as text, and where one is that this host does not have."""

from base64 import b64encode
from datetime import UTC, datetime
from uuid import UUID

import pytest

from tidegate.daemon.read_model.logs import LogRequest, backend_of_try, location, text_of, window_of
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.run_pages import RunAttemptRow

REQUEST = LogRequest("d", "r", "load[3]", None)
THERE = "there, with the TIDEGATE_SPOOL_DIR of its daemon, `tidegate tasks logs d r 'load[3]' --try 1` prints it"
REMOVED = "it ran here, and its log was removed, as all are after TIDEGATE_SPOOL_DAYS"


def attempt_of(backend: str, host: str | None, state: str) -> RunAttemptRow:
    return RunAttemptRow(
        map_index=None,
        task_id="t",
        try_number=1,
        submission_id=UUID(int=1),
        backend=backend,
        state=state,
        host=host,
        reason="",
        exit_code=None,
        created_at=datetime(2024, 5, 1, tzinfo=UTC),
        submitted_at=None,
        started_at=None,
        ended_at=None,
        log_path="/spool/1/log" if state == "failed" else None,
    )


def test_a_backend_of_a_later_version_is_named_with_what_to_do() -> None:
    backends = open_backends(Settings(postgres_dsn="", kafka_servers=""))

    assert backend_of_try(backends, attempt_of("command", "here", "failed"), REQUEST) is backends["command"]
    with pytest.raises(RequestError, match=r"try 1 of task 'load\[3\]' of run 'r' ran on backend 'flink'.*version of its daemon"):
        backend_of_try(backends, attempt_of("flink", "here", "failed"), REQUEST)


@pytest.mark.parametrize(
    ("host", "state", "text"),
    [
        ("worker-7/1f", "accepted", f"it ran on worker-7/1f; {THERE}"),
        ("worker-7/1f", "killed", f"it ran on worker-7/1f; {THERE}; it has ended: killed"),
        ("worker-7/1f", "failed", f"it ran on worker-7/1f; {THERE}, from /spool/1/log; it has ended: failed"),
        ("here", "succeeded", f"{REMOVED}; it has ended: succeeded"),
        (None, "accepted", "no host is recorded for it"),
        (None, "lost", "no host is recorded for it; it has ended: lost"),
    ],
)
def test_the_location_names_the_host_and_the_end_of_a_try(host: str | None, state: str, text: str) -> None:
    attempt = attempt_of("local", host, state)

    assert location(attempt, REQUEST, "here") == text


@pytest.mark.parametrize(
    ("content", "final", "text", "left"),
    [
        ("é\n".encode(), False, "é\n", 0),
        (b"a\xc3", False, "a", 1),
        (b"a\xf0\x9f\x98", False, "a", 3),
        (b"a\xc3", True, "a\N{REPLACEMENT CHARACTER}", 0),
        (b"a\xff", False, "a\N{REPLACEMENT CHARACTER}", 0),
        (b"", True, "", 0),
    ],
)
def test_a_part_ends_with_a_whole_character(content: bytes, final: bool, text: str, left: int) -> None:
    assert text_of(content, "text", final=final) == (text, left)
    assert text_of(content, "base64", final=final) == (b64encode(content).decode(), 0)


@pytest.mark.parametrize(
    ("content", "begin", "size", "focus", "window"),
    [
        pytest.param(b"a\nb\n", 0, 4, None, ("a\nb\n", 0, 4, None), id="all of it"),
        pytest.param(b"rest\nb\ncut", 9, 40, None, ("b\n", 14, 16, None), id="lines that are cut at both ends"),
        pytest.param(b"a\nopen", 0, 6, 2, ("a\nopen", 0, 6, 2), id="a last line without an end"),
        pytest.param(b"one line", 9, 40, 12, ("one line", 9, 17, 3), id="a part of one line"),
        pytest.param(b"rest\n", 9, 40, None, ("rest\n", 9, 14, None), id="the end of one line"),
        pytest.param("é\xff\n!".encode("latin-1"), 0, 4, 3, ("\ufffd\ufffd\n!", 0, 4, 3), id="bytes that are no text"),
        pytest.param("éé!".encode(), 0, 5, 4, ("éé!", 0, 5, 2), id="characters of several bytes"),
        pytest.param(b"a\nb\n", 10, 14, 3, ("b\n", 12, 14, None), id="what is looked for is elsewhere"),
    ],
)
def test_a_window_has_whole_lines_and_the_place_that_is_looked_for(
    content: bytes, begin: int, size: int, focus: int | None, window: tuple[str, int, int, int | None]
) -> None:
    found = window_of(content, begin, size, focus)

    assert (found.text, found.offset, found.next_offset, found.place) == window
    assert found.is_at_end is (window[2] == size)
