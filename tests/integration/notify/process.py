"""The part of a daemon that sends notifications, as a process: `python -m tests.integration.notify.process`, settings on stdin.

--die-before-record   `kill -9` of itself when something was sent and is about to be recorded
--margin SECONDS      how much longer than a try others leave it alone with a notification
"""

import os
import signal
import sys
from argparse import ArgumentParser

import anyio
import msgspec

from tests.integration.notify.post import Post
from tests.storms.replace import replace
from tidegate.daemon.duties import notify
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.settings import Settings


async def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--die-before-record", action="store_true")
    parser.add_argument("--margin", type=float, default=notify.CLAIM_MARGIN_S)
    chosen = parser.parse_args()
    replace(notify, "CLAIM_MARGIN_S", chosen.margin)
    if chosen.die_before_record:
        replace(notify.Notifier, "_record", die)
    settings = msgspec.json.decode(sys.stdin.buffer.read(), type=Settings)
    async with connect(settings.postgres_dsn) as database, Post(settings, database).at_work():
        await anyio.sleep_forever()


async def die(_notifier: notify.Notifier, _claimed: object, _outcome: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    anyio.run(main)
