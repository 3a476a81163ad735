"""Pause, resume, cancel, retry, delete and change a backfill. Each form shows what it will do, by the decision that does it."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from tidegate.daemon import backfills
from tidegate.daemon.api.backfills import permitted
from tidegate.daemon.gateway import json_input
from tidegate.daemon.gateway.endpoint import Call, Load, Params
from tidegate.daemon.gateway.paths import BackfillPath
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.backfill import read_backfill
from tidegate.daemon.read_model.backfill_effects import effects
from tidegate.daemon.web.fields import Fields, end_text
from tidegate.daemon.web.form import Field, Preview, RejectedFormError, checkbox, sentence
from tidegate.daemon.web.pages.backfill import BACKFILL, CHANGE
from tidegate.daemon.web.pages.backfill_limits import LABELS, changed_limits, limit_fields, texts_of
from tidegate.daemon.web.pages.backfill_new import field_of
from tidegate.daemon.web.rendering import url
from tidegate.daemon.web.screen import Form
from tidegate.handlers import backfill_acted
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.error import ForbiddenError, RequestError
from tidegate.schemas.message import BackfillActed, BackfillAction, Message
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow, list_dates
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState, DateState
from tidegate.schemas.text import counted, utc
from tidegate.schemas.time_range import parse_end

SHOWN = 50
"""The dates that a form lists."""

BUTTONS = {
    BackfillAction.PAUSE: "Pause",
    BackfillAction.RESUME: "Resume",
    BackfillAction.CANCEL: "Cancel the backfill",
    BackfillAction.RETRY: "Retry the backfill",
    BackfillAction.DELETE: "Delete the backfill",
}

CONCERNED = {
    BackfillAction.PAUSE: DateState.OPEN,
    BackfillAction.RESUME: DateState.OPEN,
    BackfillAction.CANCEL: DateState.OPEN,
    BackfillAction.RETRY: DateState.FAILED,
}
"""The state of the dates that a form lists."""


class ActionOptions(Params, frozen=True):
    """`kills`: a cancel ends running runs, too. `newest_version`: failed dates run again by the newest version of the DAG."""

    kills: bool = False
    newest_version: bool = False


async def preview(action: BackfillAction, call: Call[BackfillPath]) -> Preview:
    row = await permitted(call)
    return await call.database.run(_preview, action, row.id)


async def _preview(db: Db, action: BackfillAction, id_: int) -> Preview:
    row = await read_backfill(db, id_)
    rejected = await rejection(db, BackfillActed(backfill_id=id_, action=action, kills=action is BackfillAction.CANCEL))
    state = CONCERNED.get(action)
    dates = await list_dates(db, id_, state, 0, SHOWN + 1) if state and not rejected else []
    return Preview(
        title=f"{action.capitalize()} backfill {id_} of {row.dag_id}",
        says=[f"{rejected}."] if rejected else [*effects(action, row), *_more(dates)],
        back=url("backfills", id_),
        button="" if rejected else BUTTONS[action],
        titles=("Logical date", "State", "Run", "Its state"),
        rows=[(utc(date.logical_date), date.state, date.run_id or "", date.run_state or "") for date in dates[:SHOWN]],
        fields=choices_of(action, row),
        is_destructive=action in (BackfillAction.CANCEL, BackfillAction.DELETE),
    )


async def rejection(db: Db, request: BackfillActed) -> str:
    """Why the action is not possible now; empty if it is. It takes the locks of the decision, and changes nothing."""
    messages = [Message(body=request, at=db.now)]
    decided = backfill_acted.decide(messages, await backfill_acted.load(db, messages))
    return next((effect.message for effect in decided if isinstance(effect, RejectMessage)), "")


def choices_of(action: BackfillAction, row: BackfillRow) -> list[Field]:
    if action is BackfillAction.RETRY:
        label = f"by version {row.newest_version}, the newest of the DAG, which the backfill has from then on"
        return [checkbox("newest_version", label, is_set=False)] if row.newest_version != row.version else []
    return _kill_choice(row) if action is BackfillAction.CANCEL else []


def _kill_choice(row: BackfillRow) -> list[Field]:
    """Whether running runs are left or killed. One that is being cancelled can only be cancelled again to kill them."""
    runs = counted(row.running, "running run", "running runs")
    label = f"also end {runs}, and kill the attempts; without this, runs at work go on to their end"
    if row.state is BackfillState.CANCELLING:
        return [Field(name="kills", label="", kind="hidden", value="true")]
    return [checkbox("kills", label, is_set=False)]


def _more(dates: Sequence[DateRow]) -> list[str]:
    return [f"The first {SHOWN} of these dates are:"] if len(dates) > SHOWN else []


async def act(action: BackfillAction, call: Call[BackfillPath], body: ActionOptions) -> str:
    row = await permitted(call)
    await _do(action, body, call, row.id)
    return url("backfills") if action is BackfillAction.DELETE else url("backfills", row.id)


async def _do(action: BackfillAction, body: ActionOptions, call: Call[BackfillPath], id_: int) -> BackfillRow:
    caller = call.caller
    match action:
        case BackfillAction.PAUSE:
            return await backfills.pause(call.database, call.settings, caller, id_)
        case BackfillAction.RESUME:
            return await backfills.resume(call.database, call.settings, caller, id_)
        case BackfillAction.CANCEL:
            return await backfills.cancel(call.database, call.settings, caller, id_, kills=body.kills)
        case BackfillAction.RETRY:
            return await backfills.retry(call.database, call.settings, caller, id_, newest_version=body.newest_version)
        case BackfillAction.DELETE:
            return await backfills.delete(call.database, call.settings, caller, id_)


async def preview_change(call: Call[BackfillPath]) -> Preview:
    row = await permitted(call)
    shown = _shown(row)
    return _change_form(row, shown, shown, {})


def _change_form(row: BackfillRow, shown: Mapping[str, str], texts: Mapping[str, str], problems: Mapping[str, str]) -> Preview:
    """The form with `texts`: after a rejection, what the user wrote in place of the texts that were `shown`."""
    queued = counted(row.queued, "queued run", "queued runs")
    running = counted(row.running, "running run goes", "running runs go")
    hold = f"New limits hold at once, also for {queued}; {running} on."
    ended = f"The backfill has ended as {row.state}: it goes on with a later last date, or if it stopped and more may fail."
    hint = "a later one adds dates; a day is included whole"
    last = Field(name="end", label="Last date", value=texts.get("end", ""), hint=hint, problem=problems.get("end", ""))
    return Preview(
        title=f"Change backfill {row.id} of {row.dag_id}",
        says=[*([problems[""]] if "" in problems else []), ended if row.state in BACKFILL_ENDED else hold],
        back=url("backfills", row.id),
        button="Change the backfill",
        fields=[
            Field(name="shown", label="", kind="hidden", value=msgspec.json.encode(shown).decode()),
            *([] if row.logical_dates else [last]),
            *limit_fields(texts, problems),
        ],
    )


async def change(call: Call[BackfillPath], body: dict[str, str]) -> str:
    row = await permitted(call)
    fields, shown = Fields(body), shown_of(body)
    limits = changed_limits(fields, shown)
    last = fields.value("end", parse_end) if fields.texts.get("end", "") != shown.get("end", "") else None
    try:
        fields.check()
        if limits or last:
            await backfills.change(call.database, call.settings, call.caller, row.id, limits, last)
    except ForbiddenError:
        raise
    except RequestError as error:
        problems = fields.problems or {field_of(error): sentence(error)}
        raise RejectedFormError(error, _change_form(row, shown, body, problems)) from error
    return url("backfills", row.id)


def shown_of(body: Mapping[str, str]) -> dict[str, str]:
    """The texts of the form before the user changed some. Raises InvalidError."""
    try:
        shown: dict[str, str] = json_input.decode(body.get("shown", "{}").encode(), dict[str, str])
    except ValueError as error:
        raise InvalidError(f"shown: it is not of this form ({error})") from error
    return shown


def _shown(row: BackfillRow) -> dict[str, str]:
    return {**texts_of({name: getattr(row, name) for name in LABELS}), "end": end_text(row.end_date)}


def _form(action: BackfillAction) -> Form:
    shows = Load(f"{BACKFILL}/{action}", Right.BACKFILL, partial(preview, action), BackfillPath, Preview)
    does = f"{backfill_acted.DONE[action]} a backfill"
    return Form.of(shows, partial(act, action), BackfillPath, ActionOptions, does=does)


CHANGES = Load(f"{BACKFILL}/{CHANGE}", Right.BACKFILL, preview_change, BackfillPath, Preview)

FORMS = (
    *map(_form, BackfillAction),
    Form.of(CHANGES, change, BackfillPath, dict[str, str], does="changed a backfill"),
)
