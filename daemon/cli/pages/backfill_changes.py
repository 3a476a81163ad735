"""The answers of commands that change a backfill: what changed, which runs go on, and which version they have."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.daemon.read_model.backfill_effects import ChangedBackfill, effects, not_due, version
from tidegate.schemas.message import BackfillAction
from tidegate.schemas.queries.backfill_pages import BackfillRow
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState
from tidegate.schemas.text import counted, utc


def paused(row: BackfillRow) -> str:
    return f"paused backfill {row.id}. {effects(BackfillAction.PAUSE, row)[0]}"


def resumed(row: BackfillRow) -> str:
    return f"resumed backfill {row.id}. {effects(BackfillAction.RESUME, row)[0]}"


def cancelled(row: BackfillRow, *, kills: bool) -> str:
    """The answer to a cancel. It counts no queued runs: daemons may have ended some already. Runs that only wait end as well."""
    running = counted(row.running - row.waiting, "running run goes on to its end", "running runs go on to their end")
    killed = counted(row.running, "running run is ended", "running runs are ended")
    return f"cancelled backfill {row.id}. Its queued runs fail, {killed if kills else running}, and its other dates get no run."


def retried(row: BackfillRow) -> str:
    hint = " (--newest-version)" if row.version < row.newest_version else ""
    stays = f" It stays paused: `tidegate backfills resume {row.id}` resumes it." if row.state is BackfillState.PAUSED else ""
    return f"retries backfill {row.id} with {version(row)}{hint}.{stays}"


def changed(row: ChangedBackfill, limits: Mapping[str, Any], *, extends: bool) -> str:
    """The answer to `set`. `extends`: it was given a later last date."""
    what = ", ".join(f"{name} is {_shown(name, value)}" for name, value in limits.items())
    return " ".join((f"changed backfill {row.id}{': ' if what else ''}{what}.", *_dates(row, extends=extends), *_runs(row)))


def _dates(row: ChangedBackfill, *, extends: bool) -> Iterator[str]:
    if extends:
        dates = "dates" if row.added_dates is None else counted(row.added_dates, "date", "dates")
        yield f"It has {dates} more, up to {utc(row.end_date)}, with {version(row)}."
        if later := not_due(row):
            yield f"{later[0].upper()}{later[1:]}."


def _runs(row: ChangedBackfill) -> Iterator[str]:
    """The effects on its runs, in sentences."""
    if row.state in BACKFILL_ENDED:
        yield f"It has ended as {row.state}."
    else:
        running = counted(row.running, "running run goes on", "running runs go on")
        yield f"It is {row.state}: {running}, {counted(row.queued, 'queued one waits', 'queued ones wait')}."


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "none"
    return f"{100 * value:g}%" if name == "share" else str(value)
