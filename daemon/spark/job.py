"""The contents of the files in the spool: job, claim and outcome."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.process import Identity


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`: the submission and the addresses of its servers. Contains no credentials of the daemon."""

    spec: SubmissionSpec
    dags_folder: str
    spark_remote: str
    spark_master: str
    kafka_servers: str
    topic_prefix: str
    heartbeat_s: float


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """`claim`: the process that executes the submission."""

    claimant: Identity
    claimed_at: datetime


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome.json`: how the attempt ended. `reason` is one sentence for people, empty after a success.

    `follow` and `result` as in `tidegate.schemas.wire.event.TaskFinished`.
    """

    outcome: Literal["succeeded", "failed", "skipped", "killed"]
    reason: str = ""
    exit_code: int | None = None
    started_at: datetime | None
    finished_at: datetime
    follow: tuple[str, ...] | None = None
    result: Any = None
