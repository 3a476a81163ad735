"""A runner that was frozen begins nothing: its attempt may have ended for all daemons."""

from pathlib import Path

import msgspec
import pytest

from tests.unit.spark.test_spool import prepared
from tidegate.daemon.spark import contact
from tidegate.daemon.spark.runner import kinds
from tidegate.daemon.spark.runner.attempt import Attempt
from tidegate.daemon.spark.spool import Outcome


@pytest.mark.parametrize(("frozen_s", "begins"), [(600.0, True), (700.0, False)])
def test_a_task_begins_with_contact_alone(frozen_s: float, begins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends = list[object](), list[Outcome]()

    def finish(_: Attempt, outcome: Outcome) -> None:
        ends.append(outcome)
        raise SystemExit  # in place of the exit of the process

    monkeypatch.chdir(tmp_path)  # Back afterwards: the attempt changes it.
    monkeypatch.setattr(kinds, "run", begun.append)
    monkeypatch.setattr(Attempt, "finish", finish)
    spool = prepared(tmp_path)
    job = spool.job()
    assert job is not None
    monkeypatch.setattr(contact, "elapsed", lambda: 0.0)
    attempt = Attempt(spool, msgspec.structs.replace(job, silent_s=900.0, dags_folder=str(tmp_path)))
    monkeypatch.setattr(contact, "elapsed", lambda: frozen_s)

    attempt.perform()

    assert (len(begun), [end.outcome for end in ends]) == ((1, []) if begins else (0, ["killed"]))
