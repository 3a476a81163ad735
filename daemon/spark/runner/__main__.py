"""`python -m tidegate.daemon.spark.runner execute|reap|conclude SPOOL/SUBMISSION_ID [--detach] [--outcome PIPE] [--runner PID]`.

`execute` runs the task; `reap` ends the processes of a runner that was killed, of the recorded pid. `--detach` returns after the
claim.
`conclude` ends the task with the outcome in this pipe: a runner replaces its own program by it.
"""

import gc

if __name__ == "__main__":
    gc.disable()  # until the task begins: imports leave no garbage that it or the end of Python could find

import argparse
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from tidegate.daemon.spark.launch import ALREADY_CLAIMED
from tidegate.daemon.spark.process import identify
from tidegate.daemon.spark.runner.task_log import set_up_log
from tidegate.daemon.spark.spool import Spool


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, which is inherited, every program seems to succeed
    arguments = _arguments()
    announce = _detach() if arguments.detach else None
    spool = Spool(arguments.spool.absolute().parent, UUID(arguments.spool.name))
    set_up_log()
    if arguments.action == "reap":
        from tidegate.daemon.spark.runner.reap import reap  # noqa: PLC0415 - as below

        _look_for_garbage()
        _report(announce, 0)
        reap(spool, arguments.runner)
        return
    if arguments.action == "conclude":
        from tidegate.daemon.spark.runner.conclusion import resume  # noqa: PLC0415 - as below

        _look_for_garbage()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        resume(spool, arguments.outcome)
        return
    me = identify(os.getpid())
    claimed = me is not None and spool.claim(me)
    _report(announce, 0 if claimed else ALREADY_CLAIMED)
    if not claimed:
        sys.exit(ALREADY_CLAIMED)
    # Imported after the claim, which the starter waits for.
    from tidegate.daemon.spark.runner.attempt import execute  # noqa: PLC0415 - as above

    _look_for_garbage()
    execute(spool)


def _look_for_garbage() -> None:
    """From now on, among what is made from now on."""
    gc.freeze()
    gc.enable()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="runner")
    parser.add_argument("action", choices=("execute", "reap", "conclude"))
    parser.add_argument("spool", type=Path)
    parser.add_argument("--outcome", type=int)
    parser.add_argument("--runner", type=int)
    parser.add_argument("--detach", action="store_true")
    return parser.parse_args()


def _detach() -> int:
    """Continue in a child process, in a session of its own, with no open files but the log.

    This process waits for the child's claim, and exits with the exit code that it reports.
    """
    listen, announce = os.pipe()
    if os.fork():
        os.close(announce)
        code = os.read(listen, 1)
        os._exit(code[0] if code else 1)
    os.close(listen)
    os.setsid()
    return announce


def _report(announce: int | None, code: int) -> None:
    if announce is not None:
        with suppress(BrokenPipeError):
            os.write(announce, bytes((code,)))
        os.close(announce)


if __name__ == "__main__":
    main()
