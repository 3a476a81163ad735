"""The part of a daemon that sends notifications, alone."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
import msgspec

from tidegate.daemon.context import Context
from tidegate.daemon.duties.notify import CONCURRENCY, Notifier, notify, open_senders
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.daemon.wake import Signals
from tidegate.schemas.queries.leases import Job, Terms


class Post:
    """Each one is another daemon."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.database = database

    def other(self, **settings: Any) -> "Post":
        """One with other settings."""
        return Post(msgspec.structs.replace(self.settings, **settings), self.database)

    def context(self) -> Context:
        job = Job(uuid4(), self.settings.host, os.getpid(), "test", Terms(lease_ttl_s=3600.0))
        return Context(
            settings=self.settings,
            database=self.database,
            held_leases=HeldLeases(job),
            signals=Signals(),
            outages=Outages(),
            backends=open_backends(self.settings),
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """It sends until the end of the block, and then what it has begun."""
        async with anyio.create_task_group() as tg:
            await tg.start(partial(notify, self.context()))
            yield
            tg.cancel_scope.cancel()

    async def once(self) -> bool:
        """Send what is due now; whether there was anything."""
        context = self.context()
        took: list[bool] = []
        async with open_senders(context) as senders, anyio.create_task_group() as tg:
            assert senders.keys() == CONCURRENCY.keys()
            took.append(await Notifier(context, senders, tg).send_due())
        return took == [True]

    def by_hand(self) -> Notifier:
        """A daemon that does what the test makes it do."""
        return Notifier(self.context(), {}, anyio.create_task_group())
