"""The threads that a task leaves when it ends: they would write on, and start processes, until the runner has exited."""

import sys
import threading
from collections.abc import Iterator
from types import FrameType

LIBRARIES = frozenset({"tidegate", "pyspark", "grpc"})
"""Their threads are the runner's, and those of a Spark session."""

STARTERS = frozenset({"threading", "concurrent.futures.thread"})


def are_left() -> bool:
    """Whether a thread other than the caller may execute code of the task, now or later."""
    frames = sys._current_frames()
    return any(map(_is_of_task, (frame for thread, frame in frames.items() if thread != threading.get_ident())))


def _is_of_task(innermost: FrameType) -> bool:
    """Not a thread of a library that executes nothing else, nor a worker of an executor that waits: nothing submits to it."""
    modules = [name for name in _modules(innermost) if name not in STARTERS]
    if not modules:
        return innermost.f_code.co_name != "_worker"
    first, *others = (name.partition(".")[0] for name in reversed(modules))
    return first not in LIBRARIES or any(name not in LIBRARIES | sys.stdlib_module_names for name in others)


def _modules(frame: FrameType | None) -> Iterator[str]:
    """The modules of the functions that a thread executes, the innermost first."""
    while frame is not None:
        yield str(frame.f_globals.get("__name__"))
        frame = frame.f_back
