"""A daemon's part in a submission as a process of its own, to be killed: `submitter.py die|ready`, settings and spec on stdin.

`die`: kill itself as soon as the submit has returned. `ready`: say so, then submit.
"""

import os
import signal
import sys

import anyio
import msgspec

from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.schemas.dag import BACKENDS, kind_of


async def main(mode: str) -> None:
    settings, spec = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[Settings, SubmissionSpec])
    backend = open_backends(settings)[BACKENDS[kind_of(spec.task)]]
    if mode == "ready":
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    await backend.submit(spec)
    if mode == "die":
        os.kill(os.getpid(), signal.SIGKILL)


anyio.run(main, sys.argv[1])
