"""The session of a runner, with real processes."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from uuid import uuid4

import msgspec
import pytest

from tidegate.daemon.spark import session_of_task
from tidegate.daemon.spark.contact import elapsed
from tidegate.daemon.spark.process import Identity, alive, end_all, identify, send
from tidegate.daemon.spark.session_of_task import of_ended, of_living

HOUR_S = 3600.0
A_MILLION_TICKS = 10**6

Left = tuple[Identity, Identity, float]


@pytest.fixture
def left() -> Iterator[Left]:
    """The leader of a session that has ended, the process that it left there, and a time between."""
    leave = "env -i sleep 600 > /dev/null & echo $!; read line"
    with subprocess.Popen(
        ["/bin/sh", "-c", leave], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        program = identify(int(process.stdout.readline()))
        leader, lived_at = identify(process.pid), elapsed()
        process.communicate(b"end\n")
    assert leader is not None
    assert program is not None
    yield leader, program, lived_at
    send(program, signal.SIGKILL)


def test_what_a_leader_that_has_ended_left_in_its_session_can_be_ended(left: Left) -> None:
    leader, program, lived_at = left

    ended = end_all(uuid4(), grace_s=10, others=of_ended(leader, lived_at).processes)

    assert (ended, alive(program)) == (1, False)


@pytest.mark.parametrize(
    ("leader", "lived_for_s"),
    [
        pytest.param(lambda leader: leader, -HOUR_S, id="ended before"),
        pytest.param(
            lambda leader: msgspec.structs.replace(leader, start_time=leader.start_time + A_MILLION_TICKS), HOUR_S, id="later"
        ),
        pytest.param(lambda leader: msgspec.structs.replace(leader, boot_id="another"), 0, id="before the start of the host"),
        pytest.param(lambda leader: msgspec.structs.replace(leader, start_time=-1), 0, id="before the start of the container"),
    ],
)
def test_another_session_of_the_same_number_is_not_taken_for_it(
    left: Left, leader: Callable[[Identity], Identity], lived_for_s: float
) -> None:
    first, _, lived_at = left

    assert list(of_ended(leader(first), lived_at + lived_for_s).processes()) == []


def test_where_the_first_process_cannot_be_seen_no_session_is_told(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, _, lived_at = left
    monkeypatch.setattr(session_of_task, "identify", lambda _: None)

    assert list(of_ended(leader, lived_at).processes()) == []


def test_a_process_that_was_found_beside_known_ones_tells_the_session_after_their_end() -> None:
    with subprocess.Popen(
        ["/bin/sh", "-c", "read line; sleep 600 > /dev/null & echo; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        leader = identify(process.pid)
        assert leader is not None
        assert process.stdin is not None
        assert process.stdout is not None
        session = of_living(leader)
        before = set(session.processes())
        process.stdin.write(b"start\n")
        process.stdin.flush()
        process.stdout.readline()
        both = set(session.processes())
        process.communicate(b"end\n")
        after = set(session.processes())
        for left in after:
            send(left, signal.SIGKILL)

    assert (before, len(both), both - before) == ({leader}, 2, after)
