"""Which system calls of a DAG file the filter refuses, on each machine."""

import errno
import platform
import struct

import pytest

from tidegate.daemon.dagfiles import call_filter
from tidegate.daemon.dagfiles.call_filter import MACHINES, program

ALLOWED = 0x7FFF0000
PID = 70
X86, ARM = "x86_64", "aarch64"


def verdict(code: bytes, interface: int, number: int, arguments: tuple[int, ...]) -> int:
    """The error of a call, 0 for one without effect, `ALLOWED`: an interpreter of the instructions that are used."""
    data = struct.pack("iIQ6Q", number if number < 1 << 31 else number - (1 << 32), interface, 0, *(*arguments, *[0] * 6)[:6])
    instructions = list(struct.iter_unpack("HBBI", code))
    position, loaded = 0, 0
    while True:
        kind, if_true, if_false, constant = instructions[position]
        position += 1
        match kind:
            case 0x20:
                loaded = struct.unpack_from("I", data, constant)[0]
            case 0x54:
                loaded &= constant
            case 0x06:
                return ALLOWED if constant == ALLOWED else constant & 0xFFFF
            case _:
                holds = {0x15: loaded == constant, 0x35: loaded >= constant, 0x45: bool(loaded & constant)}[kind]
                position += if_true if holds else if_false


CASES = [
    ("read", (0, 63), (), ALLOWED),
    ("openat", (257, 56), (), ALLOWED),
    ("socket of the network", (41, 198), (2, 1), errno.ENETUNREACH),
    ("socket of this host", (41, 198), (1, 1), errno.ENETUNREACH),
    ("connect", (42, 203), (3,), errno.ENETUNREACH),
    ("pair of streams", (53, 199), (1, 0o2000001), ALLOWED),
    ("pair of datagrams", (53, 199), (1, 2), errno.ENETUNREACH),
    ("pair of another family", (53, 199), (2, 1), errno.ENETUNREACH),
    ("io_uring_setup", (425, 425), (), errno.ENOSYS),
    ("clone3", (435, 435), (), errno.ENOSYS),
    ("fork", (56, 220), (17,), ALLOWED),
    ("clone of a namespace", (56, 220), (0x10000011,), errno.EPERM),
    ("ptrace", (101, 117), (16, 1), errno.EPERM),
    ("unshare", (272, 97), (0x10000000,), errno.EPERM),
    ("mount", (165, 40), (), errno.EPERM),
    ("fchmodat", (268, 53), (), 0),
    ("setxattr", (188, 5), (), errno.ENOTSUP),
    ("ioctl", (16, 29), (1, 0x5401), ALLOWED),
    ("ioctl that types into a terminal", (16, 29), (1, 0x5412), errno.EPERM),
    ("kill of itself", (62, 129), (PID, 9), ALLOWED),
    ("kill of its group", (62, 129), ((1 << 64) - PID, 9), ALLOWED),
]
GUARDED = [
    ("kill of another", (62, 129), (PID + 1, 9)),
    ("kill of all", (62, 129), ((1 << 64) - 1, 9)),
    ("tgkill of another", (234, 131), (PID + 1, PID + 1, 9)),
    ("pidfd_send_signal", (424, 424), (3, 9)),
    ("owner of a descriptor", (72, 25), (3, 8, PID + 1)),
    ("owner of a descriptor by ioctl", (16, 29), (3, 0x8901)),
]
OF_OTHERS = [
    ("prlimit64 of another", (302, 261), (PID, 4)),
    ("affinity of another", (203, 122), (PID,)),
    ("priority of another", (141, 140), (0, PID)),
    ("priority of a user", (141, 140), (2, 0)),
    ("input and output of another", (251, 30), (1, PID)),
]


@pytest.mark.parametrize("machine", [X86, ARM, "riscv64"])
def test_calls_are_refused(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    call_filter.always.cache_clear()
    interface, column = MACHINES[machine]
    alone = program(PID, alone=True, signals_contained=True, truncates_contained=True)
    guarded = program(PID, alone=False, signals_contained=False, truncates_contained=False)
    scoped = program(PID, alone=False, signals_contained=True, truncates_contained=True)

    for name, numbers, arguments, expected in CASES:
        found = [verdict(code, interface, numbers[column], arguments) for code in (alone, guarded, scoped)]
        assert found == [expected] * 3, name
    for name, numbers, arguments in GUARDED:
        found = [verdict(code, interface, numbers[column], arguments) for code in (alone, guarded, scoped)]
        assert found == [ALLOWED, errno.EPERM, ALLOWED], name
    for name, numbers, arguments in OF_OTHERS:
        found = [verdict(code, interface, numbers[column], arguments) for code in (alone, guarded, scoped)]
        assert found == [ALLOWED, errno.EPERM, errno.EPERM], name
    truncate = (76, 45)[column]
    assert [verdict(code, interface, truncate, ()) for code in (alone, guarded)] == [ALLOWED, errno.EPERM]
    call_filter.always.cache_clear()


def test_other_binary_interfaces_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: X86)
    call_filter.always.cache_clear()
    code = program(PID, alone=True, signals_contained=True, truncates_contained=True)
    native, _ = MACHINES[X86]

    assert verdict(code, 0x40000003, 3, ()) == errno.ENOSYS
    assert verdict(code, native, 0x40000000 | 0, ()) == errno.ENOSYS


def test_a_machine_whose_calls_are_not_known_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "s390x")

    assert call_filter.missing() == "seccomp: the system calls of s390x are not known"
