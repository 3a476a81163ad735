"""What a daemon hands to its duties, for tests that call them one by one."""

import os
from uuid import uuid4

from tidegate.daemon.context import Context
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals
from tidegate.schemas.queries.leases import Job


def context_of(database: Database, settings: Settings) -> Context:
    """A daemon without leases and backends."""
    return Context(settings, database, HeldLeases(Job(uuid4(), settings.host, os.getpid(), "test")), Signals(), Outages(), {})
