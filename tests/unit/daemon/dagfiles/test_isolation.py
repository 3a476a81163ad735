"""What DAG files reach on a host that lacks a means of isolation."""

import pytest

from tidegate.daemon.dagfiles.isolation import Isolation, hints, reachable

NO = "not permitted"
SOCKETS = "Unix sockets that accept the user of this daemon, such as that of Postgres"
ATTRIBUTES = "modes, owners and times of files of the user of this daemon"
LIMITS = "limits and priorities of processes of the user of this daemon"
SIGNALS = "signals to processes of the user of this daemon"
FILES = "all files of the user of this daemon"


@pytest.mark.parametrize(
    ("isolation", "reached"),
    [
        (Isolation(landlock=7), []),
        (Isolation(landlock=3, network=NO, processes=NO, mounts=NO), []),
        (Isolation(landlock=2), ["the content of files of the user of this daemon in readable folders: it can empty them"]),
        (Isolation(calls=NO, landlock=7), [SOCKETS, ATTRIBUTES]),
        (Isolation(calls=NO, network=NO, landlock=7), ["the network", SOCKETS, ATTRIBUTES]),
        (Isolation(calls=NO, processes=NO, landlock=7), [SOCKETS, ATTRIBUTES, LIMITS]),
        (Isolation(calls=NO, processes=NO, landlock=5), [SOCKETS, ATTRIBUTES, LIMITS, SIGNALS]),
        (Isolation(files=NO), [FILES, "names and arguments of processes, and the environment of other processes of this user"]),
    ],
)
def test_what_is_reachable_is_named(isolation: Isolation, reached: list[str]) -> None:
    assert list(reachable(isolation, as_nobody=False)) == reached


def test_sandboxes_of_root_are_nobody() -> None:
    found = reachable(Isolation(calls=NO, files=NO), as_nobody=True)

    assert found == ("Unix sockets that accept nobody", "files that all users may read", "names and arguments of processes")


def test_each_missing_means_is_told_how_to_permit() -> None:
    assert hints(Isolation()) == ""
    assert hints(Isolation(files=NO, network=NO, processes=NO)) == (
        "boot a kernel from 5.13 with landlock in its lsm= list; permit user namespaces for the user of the daemon"
    )
