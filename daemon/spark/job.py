"""What a runner is given to do, and what comes of it: the contents of the spool's files."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.process import Identity


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`: the submission, and the servers it needs. Holds no credentials of the daemon."""

    spec: SubmissionSpec
    dags_folder: str
    spark_remote: str
    spark_master: str
    kafka_servers: str
    topic_prefix: str
    heartbeat_s: float


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """`claim`: the one process that executes the submission."""

    claimant: Identity
    claimed_at: datetime


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome.json`: how it ended. `reason` is one sentence for people, empty for success.

    `follow` and `result` as in `tidegate.schemas.wire.event.TaskFinished`.
    """

    outcome: Literal["succeeded", "failed", "skipped", "killed"]
    reason: str = ""
    exit_code: int | None = None
    started_at: datetime | None
    finished_at: datetime
    follow: tuple[str, ...] | None = None
    result: Any = None
