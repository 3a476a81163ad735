"""A runner whose spool hangs at the second heartbeat, and never answers."""

import threading
from itertools import count

from tidegate.daemon.spark.runner.__main__ import main
from tidegate.daemon.spark.spool import Spool

beat, calls = Spool.beat, count()


def hang(spool: Spool) -> int:
    if next(calls):
        threading.Event().wait()
    return beat(spool)


if __name__ == "__main__":
    setattr(Spool, "beat", hang)  # noqa: B010 - a method of a class
    main()
