"""The first process of a container: it becomes the parent of all orphans, and has to wait for their ends.

A command that is started as that leaves it to a process that does nothing else, as `docker run --init` does. Else each runner and
each program that a task has left would stay as a zombie, until the container may have no more processes.
"""

import os
import signal

PASSED_ON = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2})


def leave_to_parent() -> None:
    """Return in a child of this process, if it is the first one of its container; the parent ends as the child does."""
    if os.getpid() != 1:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED_ON, signal.SIGCHLD})
    if (child := os.fork()) != 0:
        os._exit(_wait(child))
    _lead_the_terminal()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _lead_the_terminal() -> None:
    """Be a group of its own, the one that gets the signals of the terminal: from a common one they would come twice."""
    os.setpgid(0, 0)
    if os.isatty(0):
        former = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, former)


def _wait(child: int) -> int:
    """Pass signals on and wait for all processes that end; the exit code of the child, as shells give it."""
    while True:
        number = signal.sigwait({*PASSED_ON, signal.SIGCHLD})
        if number != signal.SIGCHLD:
            os.kill(child, number)
        elif (code := _ended(child)) is not None:
            return code if code >= 0 else 128 - code


def _ended(child: int) -> int | None:
    """The exit code of the child, or minus its signal; None while it runs. Waits for all others that have ended."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in (0, child):
            return os.waitstatus_to_exitcode(status) if pid else None
