"""SIGTERM of a runner, which ends its attempt, and of the processes that its task forks, which ends these alone."""

import os
import select
import signal
import threading
from collections.abc import Callable

TERM = frozenset({signal.SIGTERM})
TIMERS = frozenset({signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF})


LOOK_EVERY_S = 1.0


def listen(end: Callable[[], object], is_asked: Callable[[], bool]) -> None:
    """Call `end` on SIGTERM, through a pipe and a thread: a Python signal handler would wait for the main thread.

    A task can take the signal away: an event loop with a handler of any signal has the one pipe of the process. The thread
    also ends the attempt when it `is_asked` to.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _handle)
    _keep_from_children(writable)
    threading.Thread(target=_await, args=(readable, end, is_asked), name="kill", daemon=True).start()


def ignore_others() -> None:
    """Ignore the signals of timers, and those with handlers of the task, which would interrupt its end.

    Only the first thread can do so, and only in that thread do handlers run.
    """
    if threading.current_thread() is threading.main_thread():
        for number in signal.valid_signals() - TERM:
            if number in TIMERS or callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)


def _handle(*_: object) -> None:
    """The interpreter writes to the pipe; there is nothing left to do."""


def _await(readable: int, end: Callable[[], object], is_asked: Callable[[], bool]) -> None:
    signals = select.poll()
    signals.register(readable, select.POLLIN)
    while not is_asked():
        if signals.poll(LOOK_EVERY_S * 1000) and signal.SIGTERM in os.read(readable, 64):
            break
    end()


def _keep_from_children(writable: int) -> None:
    """Give a forked process the default action for SIGTERM: it inherits the handler, and would write to the pipe of this process.

    Both stay where the task has set its own. SIGTERM waits during a fork: its parent may send it before the child runs.
    """
    masks = threading.local()

    def block() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, TERM)

    def restore() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def forget() -> None:
        if (pipe := signal.set_wakeup_fd(-1)) != writable:
            signal.set_wakeup_fd(pipe)
        if signal.getsignal(signal.SIGTERM) is _handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        restore()

    os.register_at_fork(before=block, after_in_parent=restore, after_in_child=forget)
