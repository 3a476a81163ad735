"""What isolates DAG files on this host, and what they reach where something is missing."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tidegate.daemon.dagfiles import call_filter, landlock
from tidegate.daemon.dagfiles.readable import DEVICES, Readable


class Isolation(msgspec.Struct, frozen=True):
    """Of each means, why it is missing on this host; empty if it is active. `landlock` is the version of Landlock, 0 for none.

    `calls` is the filter of system calls, `files` Landlock; the others are namespaces.
    """

    calls: str = ""
    files: str = ""
    network: str = ""
    processes: str = ""
    mounts: str = ""
    landlock: int = 0

    @property
    def truncates_contained(self) -> bool:
        return self.landlock >= landlock.TRUNCATES_SINCE

    @property
    def signals_contained(self) -> bool:
        return self.landlock >= landlock.SCOPED_SINCE


class Means(NamedTuple):
    """One of the means: the field of `Isolation`, what it holds back, and how to permit it."""

    field: str
    name: str
    holds_back: str
    permit: str


_NOBODY = "nobody"
_POSTGRES = ", such as that of Postgres"
_ENVIRONMENT = ", and the environment of other processes of this user"
_NAMESPACES = "permit user namespaces for the user of the daemon"
MEANS = (
    Means("calls", "filter of system calls", "sockets, and calls that act on other processes", "permit filters of seccomp"),
    Means("files", "Landlock", "files of the host", "boot a kernel from 5.13 with landlock in its lsm= list"),
    Means("network", "network namespace", "the network, a second time", _NAMESPACES),
    Means("processes", "process namespace", "the numbers of other processes", _NAMESPACES),
    Means("mounts", "mount namespace", "other files in /tmp and /dev/shm", _NAMESPACES),
)


def kernel_isolation(*, network: str, processes: str, mounts: str) -> Isolation:
    """The isolation with these namespaces, or why they are missing."""
    calls = call_filter.missing()
    if not calls:
        call_filter.always()  # each sandbox would make it again
    try:
        return Isolation(calls, "", network, processes, mounts, landlock.version())
    except OSError as error:
        return Isolation(calls, f"landlock: {error.strerror}", network, processes, mounts)


def reachable(isolation: Isolation, *, as_nobody: bool) -> tuple[str, ...]:
    """The parts of the host that a DAG file reaches because a means is missing. `as_nobody`: see `changes_user`."""
    return tuple(_reachable(isolation, _NOBODY if as_nobody else "the user of this daemon"))


def _reachable(isolation: Isolation, user: str) -> Iterator[str]:
    if isolation.calls:
        yield from _reachable_by_calls(isolation, user)
    if isolation.files:
        yield "files that all users may read" if user == _NOBODY else f"all files of {user}"
        yield f"names and arguments of processes{_ENVIRONMENT if user != _NOBODY else ''}"
    elif not isolation.truncates_contained and user != _NOBODY:
        yield f"the content of files of {user} in readable folders: it can empty them"


def _reachable_by_calls(isolation: Isolation, user: str) -> Iterator[str]:
    if isolation.network:
        yield "the network"
    yield f"Unix sockets that accept {user}{_POSTGRES if user != _NOBODY else ''}"
    if user != _NOBODY:
        yield f"modes, owners and times of files of {user}"
    if isolation.processes:
        yield f"limits and priorities of processes of {user}"
        if not isolation.signals_contained:
            yield f"signals to processes of {user}"


class State(msgspec.Struct, frozen=True):
    """A means on this host: what it holds back, and why it is missing, if it is."""

    name: str
    holds_back: str
    missing: str


def means(isolation: Isolation) -> tuple[State, ...]:
    """All means, the strongest first."""
    return tuple(State(each.name, each.holds_back, getattr(isolation, each.field)) for each in MEANS)


def hints(isolation: Isolation) -> str:
    """How to permit what is missing."""
    return "; ".join(dict.fromkeys(each.permit for each in MEANS if getattr(isolation, each.field)))


def enclose(isolation: Isolation, readable: Readable, writable: tuple[str, ...]) -> None:
    """Give up all other files of the host, and the calls that DAG files do not need. Raises OSError.

    Needs `no_new_privs`. The filter comes last: it refuses nothing that Landlock needs, but what comes after it is refused much.
    """
    if not isolation.files:
        _keep_files(isolation.landlock, readable, writable)
    if not isolation.calls:
        call_filter.install(
            alone=not isolation.processes,
            signals_contained=isolation.signals_contained,
            truncates_contained=bool(isolation.files) or isolation.truncates_contained,
        )


def _keep_files(version: int, readable: Readable, writable: tuple[str, ...]) -> None:
    rules = landlock.Ruleset(version)
    rules.keep(readable.folders, landlock.READ_FOLDER)
    rules.keep(readable.files, landlock.READ_FILE)
    rules.keep(DEVICES, landlock.DEVICE)
    for folder in writable:
        rules.keep_all(folder)
    rules.enforce()
