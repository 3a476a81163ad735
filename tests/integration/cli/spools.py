"""What the runner of a try writes."""

import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from tidegate.daemon.spark.process import identify
from tidegate.daemon.spark.spool import Outcome, Spool


def begun(tmp_path: Path, submission_id: UUID) -> Spool:
    spool = Spool(tmp_path / "spool", submission_id)
    spool.path.mkdir(parents=True)
    me = identify(os.getpid())
    assert me is not None
    spool.claim(me)
    return spool


def ended(spool: Spool) -> None:
    now = datetime.now(UTC)
    spool.end(Outcome(outcome="succeeded", started_at=now, finished_at=now))
