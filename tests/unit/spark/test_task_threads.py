"""Which threads may execute code of a task after its end, seen from a process that has only these."""

import subprocess
import sys

import pytest

THREADS = {
    "none": ("", False),
    "a thread of the task": ("threading.Thread(target=lambda: begin() or hold.wait(), daemon=True).start(); begun.wait()", True),
    "a thread in a module of Python": ("threading.Thread(target=hold.wait, daemon=True).start()", True),
    "a pool of processes": ("pool = multiprocessing.get_context('fork').Pool(1)", True),
    "an executor at work": ("pool = ThreadPoolExecutor(); pool.submit(lambda: begin() or hold.wait()); begun.wait()", True),
    "an executor at work in C": ("pool = ThreadPoolExecutor(); pool.submit(time.sleep, 600); one_is_in('run')", True),
    "an executor without work": ("pool = ThreadPoolExecutor(); pool.submit(int).result(); one_is_in('_worker')", False),
    "the runner's own": ("termination.listen(int, bool); one_is_in('_await')", False),
    "code of the task in a library": ("threading.Thread(target=called_by('pyspark.util'), daemon=True).start()", True),
    "a thread without Python": ("native(b'rdk:main')", True),
    "a thread of a library without Python": ("native(b'event_engine')", False),
    "an idle thread of a library without Python": ("native(b'')", False),
    "a library": ("threading.Thread(target=called_by('grpc._channel', 'queue'), daemon=True).start(); one_is_in('call')", False),
}
SCRIPT = """
import ctypes, multiprocessing, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from tidegate.daemon.spark.runner import task_threads, termination

hold, begun = threading.Event(), threading.Event()

def begin():
    begun.set()

def one_is_in(name):
    "Wait until a thread has come that far: what it does in `threading` does not count."
    def function(frame):
        while frame and frame.f_globals["__name__"] == "threading":
            frame = frame.f_back
        return frame and frame.f_code.co_name
    while name not in [function(frame) for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]:
        time.sleep(0.01)

def native(name):
    "A thread that waits in C, as libraries start them, with a name of its own or that of the process."
    libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, libc.pause, None) == 0
    assert not name or libc.pthread_setname_np(thread, name) == 0

def called_by(library, caller="dagfile"):
    inner = {"__name__": caller, "hold": hold}
    exec("def call(): hold.wait()", inner)
    outer = {"__name__": library, "call": inner["call"]}
    exec("def call_it(): call()", outer)
    return outer["call_it"]

%s
print(task_threads.are_left(), flush=True)
pool = globals().get("pool")
if hasattr(pool, "terminate"):
    pool.terminate()
os._exit(0)
"""


@pytest.mark.parametrize(("code", "are_left"), THREADS.values(), ids=THREADS)
def test_threads_of_the_task(code: str, are_left: bool) -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT % code], capture_output=True, text=True, check=True, timeout=60)

    assert found.stdout == f"{are_left}\n"
