"""The threads that a task leaves when it ends: they would write on, and start processes, until the runner has exited."""

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

NAME_CHARACTERS = 15
"""The kernel cuts the names of threads off."""

LIBRARIES = frozenset({"tidegate", "pyspark", "grpc"})
"""Their threads are the runner's, and those of a Spark session."""

NATIVE = frozenset({"event_engine", "grpc_global_tim", "lifeguard", "jemalloc_bg_thd"})
"""How gRPC and Arrow name their threads without Python code."""

STARTERS = frozenset({"threading", "concurrent.futures.thread"})


def are_left() -> bool:
    """Whether a thread other than the caller may execute code of the task, now or later.

    One without Python code is told by its name: that of the process have the idle ones of many libraries for numbers.
    """
    frames = sys._current_frames()
    is_in_python = any(map(_is_of_task, (frame for thread, frame in frames.items() if thread != threading.get_ident())))
    return is_in_python or not set(_native_names()) <= NATIVE | {Path(sys.executable).name[:NAME_CHARACTERS]}


def _native_names() -> Iterator[str]:
    """The names of the threads that Python has not started."""
    own = {str(thread.native_id) for thread in threading.enumerate()}
    for path in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            if path.name not in own:
                yield (path / "comm").read_text().strip()


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
