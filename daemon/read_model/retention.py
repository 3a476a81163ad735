"""What is kept how long."""

from collections.abc import Sequence

import msgspec

from tidegate.schemas.queries.system_pages import DaemonLine, LedgerLine
from tidegate.schemas.text import counted, utc
from tidegate.schemas.timetable.month import begin_of


class Retained(msgspec.Struct, frozen=True):
    """A kind of data, how long it is kept, the setting for that, and its removal in words."""

    what: str
    kept: str
    setting: str
    removal: str


def retained(daemons: Sequence[DaemonLine], ledger: LedgerLine) -> list[Retained]:
    """By the settings of the live daemons, which differ where an operator has not set them alike."""
    terms = [daemon.terms.retention for daemon in daemons]
    ids, months = (_days([getattr(each, name) for each in terms]) for name in ("dedupe_days", "ledger_days"))
    return [
        Retained(
            "ids of events, to recognise duplicates", ids, "TIDEGATE_DEDUPE_DAYS", "within a day; how many is not on record"
        ),
        Retained("events and their states, from the end of their month on", months, "TIDEGATE_LEDGER_DAYS", _months(ledger)),
        Retained("notes about schedules", months, "TIDEGATE_LEDGER_DAYS", "each hour; how many is not on record"),
        Retained(
            "logs and outcomes of tasks on each host",
            _days([each.spool_days for each in terms]),
            "TIDEGATE_SPOOL_DAYS",
            "each hour; the log of each daemon has spool_pruned with its number",
        ),
        Retained("runs, tasks, attempts, notifications", "until their DAG is deleted", "", "in the audit log"),
        Retained("dead letters, the audit log", "for ever", "", ""),
    ]


def _days(found: Sequence[int]) -> str:
    """`14 days`, or what each daemon says."""
    known = sorted({days for days in found if days})
    if not known:
        return "as the daemons are set, which is not known"
    return f"{' or '.join(map(str, known))} {'day' if known == [1] else 'days'}"


def _months(ledger: LedgerLine) -> str:
    dropped = counted(ledger.dropped, "month dropped", "months dropped")
    last = f", the last at {utc(ledger.retired_at)}" if ledger.retired_at else ""
    return dropped + last + (f"; the oldest is {begin_of(ledger.oldest):%B %Y}" if ledger.oldest else "")
