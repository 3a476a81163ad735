"""A filter of system calls (seccomp), which needs no privilege.

A sandbox makes no socket but connected pairs, no namespace and no mount, and changes neither other processes nor the modes,
owners and times of files. Calls of other binary interfaces, such as those of 32-bit programs, are refused altogether.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain

from tidegate.daemon.dagfiles import libc
from tidegate.daemon.dagfiles import system_calls as calls

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
"""The binary interface of a machine for the kernel, and the column of its numbers."""

X32 = 0x40000000
"""The first number of the interface x32, which the kernel takes for the same machine as x86-64."""

_NAMESPACES = 0x7E020000
"""All flags `CLONE_NEW…` of `clone`."""

_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP, _F_SETOWN, _F_SETOWN_EX = 0x5412, 0x541C, 0x8901, 0x8902, 8, 15
_TYPE_BITS = 0xF
_FORMAT, _SIZE = "HBBI", 8
_MINUS = 0x100000000

_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER, _INTERFACE, _ARGUMENTS = 0, 4, 16

_PR_SET_SECCOMP, _FILTER = 22, 2

Instruction = tuple[int, int, int, int]
"""Code, jumps if true and if false, constant: an instruction of classic BPF."""


def missing() -> str:
    """Why this kernel filters no calls; empty if it does."""
    if platform.machine() not in MACHINES:
        return f"seccomp: the system calls of {platform.machine()} are not known"
    try:
        libc.prctl(_PR_SET_SECCOMP, _FILTER, None)
    except OSError as error:
        return "" if error.errno == errno.EFAULT else f"seccomp: {error.strerror}"
    return ""


def install(*, alone: bool, signals_contained: bool, truncates_contained: bool) -> None:
    """Filter the calls of this process and of its descendants from now on. Raises OSError. Needs `no_new_privs`.

    `alone`: it is in a process namespace of its own. `signals_contained`, `truncates_contained`: other means hold these back.
    """
    code = program(os.getpid(), alone=alone, signals_contained=signals_contained, truncates_contained=truncates_contained)
    buffer = ctypes.create_string_buffer(code, len(code))
    libc.prctl(_PR_SET_SECCOMP, _FILTER, struct.pack("HxxxxxxP", len(code) // _SIZE, ctypes.addressof(buffer)))


def program(pid: int, *, alone: bool, signals_contained: bool, truncates_contained: bool) -> bytes:
    """The instructions for a process, as for `install`."""
    guards = chain(
        () if alone else _others_of_user(),
        () if alone or signals_contained else _signals(pid),
        () if truncates_contained else _refuse("truncate"),
    )
    return always() + _packed((*guards, (_RETURN, 0, 0, _ALLOW)))


@cache
def always() -> bytes:
    """What is refused on each host, made once. A socket is refused as without a network, which the error tells the author."""
    interface, _ = MACHINES[platform.machine()]
    return _packed(
        (
            (_LOAD, 0, 0, _INTERFACE),
            (_EQUAL, 1, 0, interface),
            _refusal(errno.ENOSYS),
            (_LOAD, 0, 0, _NUMBER),
            (_AT_LEAST, 0, 1, X32),
            _refusal(errno.ENOSYS),
            *_refuse(*calls.SOCKETS, error=errno.ENETUNREACH),
            *_refuse(*calls.RINGS, error=errno.ENOSYS),
            *_refuse(*calls.PROCESSES, *calls.KERNEL, *calls.MOUNTS, *calls.SHARED),
            *_refuse(*calls.ATTRIBUTES, error=0),
            *_refuse(*calls.EXTENDED_ATTRIBUTES, error=errno.ENOTSUP),
            *_call("clone", _argument(0), (_HAS_BIT, 0, 1, _NAMESPACES), _refusal(errno.EPERM)),
            *_call("socketpair", *_other_than_stream()),
            *_call("ioctl", _argument(1), *_if_any((_TIOCSTI, _TIOCLINUX))),
        )
    )


def _packed(instructions: Iterable[Instruction]) -> bytes:
    return b"".join(struct.pack(_FORMAT, *instruction) for instruction in instructions)


def _others_of_user() -> Iterator[Instruction]:
    """Limits and priorities of other processes: 0 is the calling one."""
    for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        yield from _call(name, *_unless(0, 0))
    yield from _call("setpriority", *_unless(0, os.PRIO_PROCESS), *_unless(1, 0))
    yield from _call("ioprio_set", *_unless(0, 1), *_unless(1, 0))


def _signals(pid: int) -> Iterator[Instruction]:
    """Signals to other processes than this one and its group, by a call or by a descriptor."""
    yield from _refuse(*calls.SIGNALS)
    yield from _call("kill", *_unless(0, 0, pid, _MINUS - pid))
    yield from _call("tgkill", *_unless(0, pid))
    yield from _call("fcntl", _argument(1), *_if_any((_F_SETOWN, _F_SETOWN_EX)))
    yield from _call("ioctl", _argument(1), *_if_any((_FIOSETOWN, _SIOCSPGRP)))


def _refuse(*names: str, error: int = errno.EPERM) -> Iterator[Instruction]:
    """Refuse these calls; with the error 0 they have no effect."""
    for number in filter(None, map(_number, names)):
        yield (_EQUAL, 0, 1, number)
        yield _refusal(error)


def _call(name: str, *instructions: Instruction) -> Iterator[Instruction]:
    """Instructions for one call; what comes after them finds its number loaded, if they have not refused it."""
    if (number := _number(name)) is not None:
        yield (_EQUAL, 0, len(instructions) + 1, number)
        yield from instructions
        yield (_LOAD, 0, 0, _NUMBER)


def _number(name: str) -> int | None:
    _, column = MACHINES[platform.machine()]
    return _NUMBERS[name][column]


def _unless(position: int, *values: int) -> Iterator[Instruction]:
    """Refuse the call if an argument has none of these values."""
    yield _argument(position)
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        yield (_EQUAL, left, 0, value)
    yield _refusal(errno.EPERM)


def _if_any(values: Iterable[int]) -> Iterator[Instruction]:
    """Refuse the call if the loaded argument has one of these values."""
    for value in values:
        yield (_EQUAL, 0, 1, value)
        yield _refusal(errno.EPERM)


def _other_than_stream() -> Iterator[Instruction]:
    """Refuse pairs that can send elsewhere: event loops need a connected stream."""
    yield _argument(0)
    yield (_EQUAL, 1, 0, socket.AF_UNIX)
    yield _refusal(errno.ENETUNREACH)
    yield _argument(1)
    yield (_AND, 0, 0, _TYPE_BITS)
    yield (_EQUAL, 1, 0, socket.SOCK_STREAM)
    yield _refusal(errno.ENETUNREACH)


def _argument(position: int) -> Instruction:
    """Load the lower half of an argument: all of these are 32-bit numbers."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * position)


def _refusal(error: int) -> Instruction:
    return (_RETURN, 0, 0, _REFUSE | error)


_NUMBERS = {
    **calls.SOCKETS,
    **calls.RINGS,
    **calls.PROCESSES,
    **calls.KERNEL,
    **calls.MOUNTS,
    **calls.SHARED,
    **calls.ATTRIBUTES,
    **calls.EXTENDED_ATTRIBUTES,
    **calls.SIGNALS,
    **calls.BY_ARGUMENT,
}
