"""The origin of a run, printed."""

import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from tidegate import handlers
from tidegate.daemon.cli.pages.run_origin import print_page
from tidegate.daemon.engine import HANDLERS, KINDS
from tidegate.daemon.read_model.run_origin import ATTEMPT_ENDED, CAUSES, RunOrigin, cause
from tidegate.handlers import attempt_ends
from tidegate.handlers.explain.stages import Stage
from tidegate.handlers.runs import create
from tidegate.schemas.queries.run_pages import ConsumedEventRow, Origin, OriginFacts, RunMoveRow, Steps
from tidegate.schemas.wire.event import Producer

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def origin(**facts: Any) -> Origin:
    return Origin(**{**dict.fromkeys(Origin.__struct_fields__), **facts})


def test_every_kind_of_message_that_is_named_is_one() -> None:
    assert CAUSES.keys() <= set(KINDS.values())


def test_every_kind_of_message_that_creates_runs_is_named() -> None:
    creating = {KINDS[type_] for type_, handler in HANDLERS.items() if create.__name__ in _used_by(handler.__name__, set())}

    assert creating | {"task_finished"} == CAUSES.keys()


def _used_by(name: str, seen: set[str]) -> set[str]:
    """The modules of handlers whose functions a module uses, itself or by others; ends of attempts have words of their own."""
    if name not in seen and name.startswith(handlers.__name__) and name != attempt_ends.__name__:
        seen.add(name)
        for value in vars(sys.modules[name]).values():
            _used_by(value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", "")), seen)
    return seen


@pytest.mark.parametrize(("kind", "words"), [("schedule_due", "it was due"), ("attempt_silent", ATTEMPT_ENDED), (None, None)])
def test_the_cause_of_a_run_in_words(kind: str | None, words: str | None) -> None:
    assert cause(origin(cause=kind)) == words


EXPLAINED = (
    "d r\n"
    "  state      running\n"
    "  made by    5 dataset events\n"
    "  because    dataset events arrived\n"
    "  created    2026-11-21 12:00:00Z\n"
    "  by         h (pid 7)\n"
    "  schedule   s://a\n"
    "  version    3, since 2026-11-21 12:00:00Z, d.py\n"
    "  run after  2026-11-21 12:00:00Z\n"
    "\n"
    "consumed events\n"
    "EVENT  DATASET                   SOURCE  ID  PRODUCER   OCCURRED              ARRIVED AFTER  WAITED\n"
    "1      s://a                     p       e   d r0 m[3]  2026-11-21 11:59:55Z  0.0s           5.0s\n"
    "2      older than the retention  -       -   -          -                     -              -\n"
    "  3 more older than the retention of the ledger\n"
    "  at least 7 more stayed pending for the next run, because of TIDEGATE_RUN_EVENTS\n"
    "\n"
    "stages\n"
    "STAGE                AT                    TOOK\n"
    "it arrived           2026-11-21 11:59:55Z  -\n"
    "the run was created  2026-11-21 12:00:00Z  5.0s\n"
    "\n"
    "attempts\n"
    "TASK  TRY  FOR SLOTS  TO SUBMIT  TO START  RAN  STATE     HOST\n"
    "a     1    0.0s       0.0s       0.0s      12s  accepted  h\n"
    "\n"
    "journal\n"
    "STATE   AT                    REASON\n"
    "queued  2026-11-21 12:00:00Z  -\n"
)


def test_the_origin_of_a_run_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    run: dict[str, Any] = {
        "state": "running",
        "run_type": "dataset",
        "created_at": NOON,
        "creator": "h (pid 7)",
        "version": 3,
        "version_at": NOON,
        "path": "d.py",
        "logical_date": None,
        "run_after": NOON,
        "events": 5,
        "events_left": 7,
    }
    before = NOON - timedelta(seconds=5)
    page = RunOrigin(
        dag_id="d",
        run_id="r",
        origin=OriginFacts(**{**dict.fromkeys(OriginFacts.__struct_fields__), **run}),
        backfill_id=None,
        cause="dataset events arrived",
        condition="s://a",
        timing="",
        events=[
            ConsumedEventRow(
                1, "s://a", "p", "e", before, before, {}, Producer(dag_id="d", run_id="r0", task_id="m", map_index=3)
            ),
            ConsumedEventRow(2, None, None, None, None, None, None),
        ],
        forgotten=3,
        stages=[Stage("it arrived", before, None), Stage("the run was created", NOON, 5)],
        attempts=[Steps("a", 1, NOON, NOON, NOON, NOON, None, "accepted", "h")],
        journal=[RunMoveRow(1, "queued", "", NOON)],
    )

    print_page(page, NOON + timedelta(seconds=12))

    assert capsys.readouterr().out == EXPLAINED
