"""The zygote: a small process, warm and single-threaded, that forks a sandbox for each DAG file.

`python -m tidegate.daemon.dagfiles.zygote FD` where FD is a Unix seqpacket socket to the daemon. It holds no
secrets: its environment is an allow-list, it opens no file, it has no network. It refuses inspection, for the sake of the socket,
and ends when the socket is closed.

It is the first process of a process namespace of its own, below a process that waits for it: there it may make a further
namespace for each sandbox. Where that is not permitted, it forks a process for each file, which finds what the file left running.
"""

import gc

if __name__ == "__main__":
    gc.disable()  # until it serves: imports leave no garbage

import importlib
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from tidegate.daemon.dagfiles.confine import (
    changes_user,
    die_with_parent,
    enter_process_namespace,
    fork_contained,
    leave_network,
    open_process_namespace,
    process_limit,
    refuse_inspection,
)
from tidegate.daemon.dagfiles.execute import Host, run
from tidegate.daemon.dagfiles.imports import ImportTracker
from tidegate.daemon.dagfiles.isolation import Isolation, kernel_isolation
from tidegate.daemon.dagfiles.message import Hello, Limits, Request, Script, decode_request, decode_script, encode
from tidegate.daemon.dagfiles.minder import Minder
from tidegate.daemon.dagfiles.module_paths import closed_folders
from tidegate.daemon.dagfiles.readable import module_folders, present
from tidegate.daemon.dagfiles.scratch import View, permits_mounts, private_folder, private_places, remove, share_folder
from tidegate.daemon.orphans import adopt_orphans

DESCRIPTORS = 4
REFUSED = "unshare: it is not permitted"
MAX_REQUEST = 65_536

COUNT_EVERY_S = 5.0
"""Reading all processes of the host takes up to some tenths of a second."""

WARM = (
    *("dataclasses", "datetime", "functools", "itertools", "json", "logging", "math", "pathlib", "re", "textwrap", "typing"),
    *("croniter", "tidegate.schemas.json_schema"),
)
"""Modules that many DAG files import, or that a parameter needs."""

SAMPLE = """
from tidegate import Dag, Dataset

with Dag("sample", schedule="@daily") as dag:
    dag.command("first", ["true"]) >> dag.sql("second", "SELECT 1", outlets=[Dataset("sample://")]) >> dag.empty("third")
"""
PRACTICE = 20
AMPLE = Limits(wall_s=60.0, cpu_s=60, memory_mb=1024, output_mb=1)

GC_THRESHOLD = 10_000
"""New objects after which Python looks for garbage: a file that makes fewer, as nearly all do, is not searched."""


def main() -> NoReturn:
    """Exits without the end of Python, which would take apart what is frozen.

    The garbage of the start is frozen, too: to find it takes a tenth of the start, and it is 300 KB.
    """
    die_with_parent()
    refuse_inspection()
    control = socket.socket(fileno=int(sys.argv[1]))
    close_others(control.fileno())
    for name in WARM:
        importlib.import_module(name)
    network = leave_network()
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    practise()
    gc.freeze()
    gc.enable()
    gc.set_threshold(GC_THRESHOLD)
    home = enter_namespace_of_its_own()
    isolation = kernel_isolation(network=network, processes="" if home else REFUSED, mounts="" if permits_mounts() else REFUSED)
    modules = (*module_folders(os.environ), *sys.argv[2:])
    with suppress(BrokenPipeError, ConnectionResetError):  # the daemon stopped while it started
        control.send(encode(Hello(isolation, modules, changes_user())))
        scratch = share_folder() if isolation.mounts else ""
        serve(control, home, Hosting(isolation, modules))
        remove(scratch)
    os._exit(0)


def practise() -> None:
    """Build and serialise a DAG as sandboxes do: what Python keeps of that, each of them would make again."""
    for _ in range(PRACTICE):
        script = decode_script(encode(Script(SAMPLE)))
        outcome = run(script.text, "/sample.py", AMPLE)
        imports = ImportTracker("/", "/sample.py")
        imports.add_later(script, has_failed=False)
        encode(msgspec.structs.replace(outcome, imports=imports.digests))


def close_others(descriptor: int) -> None:
    """Close all descriptors but this one and the standard ones: uvloop passes a second descriptor of the log.

    Their limit may be a billion, and some Pythons close each number below it, open or not.
    """
    for other in map(int, os.listdir("/proc/self/fd")):
        if other > 2 and other != descriptor:
            with suppress(OSError):  # the listing had one of its own
                os.close(other)


def enter_namespace_of_its_own() -> int | None:
    """Go on as the first process of a new process namespace; returns its descriptor. None where that is not permitted."""
    if not enter_process_namespace():
        return None
    if (pid := os.fork()) != 0:
        _end_with(pid)
    die_with_parent()
    with suppress(OSError):
        return open_process_namespace()
    return None


def _end_with(pid: int) -> NoReturn:
    """Wait for the child, which alone keeps the socket."""
    os.closerange(3, int(sys.argv[1]) + 1)
    _, status = os.waitpid(pid, 0)
    os._exit(int(status != 0))


class Hosting:
    """The facts of the host, of which some change."""

    def __init__(self, isolation: Isolation, modules: Sequence[str]) -> None:
        self._isolation, self._modules, self._readable = isolation, modules, present(modules)
        self._processes, self._counted_until = 0, 0.0
        self._places: dict[str, View] = {}

    def at_present(self, root: str) -> Host:
        """The facts for a file below this DAG folder."""
        if time.monotonic() > self._counted_until:
            alone = not self._isolation.network
            self._processes, self._counted_until = process_limit(alone=alone), time.monotonic() + COUNT_EVERY_S
            self._places.clear()
        paths = (root, *sys.path, *self._modules)
        closed = closed_folders(paths) if os.geteuid() == 0 else {}
        if root not in self._places:
            self._places[root] = private_places(paths)
        return Host(self._processes, self._isolation, self._readable, closed, self._places[root])


def serve(control: socket.socket, home: int | None, hosting: Hosting) -> None:
    """Run a sandbox per request, until the daemon closes the socket. `home` is the process namespace, if there may be some."""
    minder = Minder(
        os.fork if home is None else partial(fork_contained, home), _nothing, [control.fileno(), *filter(None, [home])]
    )
    start = minder.start
    if home is None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        start = partial(_start_apart, control)
    while True:
        if control.fileno() in minder.wait(control.fileno()) and not _accept(control, start, hosting):
            return


def _accept(control: socket.socket, start: Callable[[Request, Sequence[int], Host], None], hosting: Hosting) -> bool:
    """Start a sandbox; the daemon notices if that fails, by the end of its socket. False when the daemon is gone."""
    message, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST, DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    if message:
        request = decode_request(message)
        with suppress(OSError):
            start(request, descriptors, hosting.at_present(request.root))
    for descriptor in descriptors:
        os.close(descriptor)
    return bool(message)


def _start_apart(control: socket.socket, request: Request, descriptors: Sequence[int], host: Host) -> None:
    """Mind the sandbox in a process of its own, which becomes the parent of what the file leaves running."""
    if os.fork() != 0:
        return
    try:
        control.close()
        die_with_parent()
        adopt_orphans()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        scratch = private_folder()
        minder = Minder(os.fork, partial(_clean_up, scratch), ())
        minder.start(request, descriptors, host._replace(scratch=scratch))
        while minder.sandboxes:
            minder.wait()
    except BaseException:  # noqa: BLE001 - this process must exit here
        traceback.print_exc()
    finally:
        os._exit(0)


def _nothing() -> None:
    """Nothing is left running in a process namespace that ended."""


def _clean_up(scratch: str) -> None:
    """Before the reply: after it, the daemon may end this process."""
    _kill_orphans()
    remove(scratch)


def _kill_orphans() -> None:
    """Kill the remaining processes of the file, which all are children of this process now."""
    children = Path("/proc/thread-self/children")
    while pids := children.read_text().split():
        for pid in map(int, pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
