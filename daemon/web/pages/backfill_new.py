"""Create a backfill: its form shows what would happen to each date, and what is wrong beside the field."""

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.daemon import backfills
from tidegate.daemon.gateway.endpoint import Call, Load, Params, check_rights
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model import backfill_preview
from tidegate.daemon.read_model.lookup import find_dag
from tidegate.daemon.web.fields import Fields, json_object, moments
from tidegate.daemon.web.form import Field, Kind, Preview, checkbox
from tidegate.daemon.web.pages.backfill_limits import DEFAULTS, limit_fields, limits_of, texts_of
from tidegate.daemon.web.rendering import url
from tidegate.daemon.web.screen import Form
from tidegate.schemas.backfill import MAX_DESCRIPTION, MAX_LISTED_DATES, BackfillSpec, Outlets, Reprocess
from tidegate.schemas.error import NotFoundError, RequestError
from tidegate.schemas.queries import dag_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.text import utc
from tidegate.schemas.time_range import parse_end, parse_time

SHOWN = 100
"""The dates of the table."""

OFFERED = 500
"""The DAGs that the field of the DAG offers."""

INTRODUCTION = "Runs of a DAG for past dates, by its newest version, beside its other runs."
NEXT_STEP = "Write the first and the last date, or list dates: the next page shows what happens to each."

LIMITS = texts_of(DEFAULTS)

NAMES = {"dag_id": "dag", "start_date": "start", "end_date": "end", "logical_dates": "dates", "dag_params": "conf"}
"""The fields of the form that have another name in the request."""


TICKS = (
    ("is_reverse", "begin with the newest date"),
    ("ignore_first_depends_on_past", "let the first date not wait for the run before it (depends_on_past)"),
)


class NewParams(Params, frozen=True, kw_only=True):
    """The texts of the form."""

    dag: str = ""
    start: str = ""
    end: str = ""
    dates: str = ""
    reprocess: str = Reprocess.NONE.value
    outlets: str = Outlets.EVENTS.value
    is_reverse: str = ""
    ignore_first_depends_on_past: str = ""
    conf: str = ""
    description: str = ""
    max_active_runs: str = LIMITS["max_active_runs"]
    max_active_tasks: str = ""
    share: str = ""
    pool: str = ""
    priority: str = LIMITS["priority"]
    max_failed_runs: str = LIMITS["max_failed_runs"]


async def preview(call: Call[NewParams]) -> Preview:
    fields = Fields(msgspec.structs.asdict(call.params))
    dags = await call.database.run(_check_dag, fields)
    spec = spec_of(fields) if fields.texts["dag"] else None
    if spec is None:
        _await_dates(fields)
        return _form(fields, None, dags)
    await _check_rights(call, spec)
    try:
        async with call.service.turns.of(call.caller.username):
            found = await backfills.preview(call.database, spec, SHOWN)
        return _form(fields, found, dags)
    except RequestError as error:
        fields.problems[field_of(error) or "dag"] = str(error)
        return _form(fields, None, dags)


def _await_dates(fields: Fields) -> None:
    """A form that opens from the page of a DAG has no dates yet, which is no problem while nothing else is wrong."""
    if fields.problems.keys() == {"start", "end"} and not any(fields.texts[name] for name in ("start", "end", "dates")):
        fields.problems.clear()


async def _check_dag(db: Db, fields: Fields) -> list[str]:
    """The ids of DAGs that the field of the DAG offers. An unknown one there is a problem, beside those of other fields."""
    try:
        if dag_id := fields.texts["dag"]:
            await find_dag(db, dag_id)
    except NotFoundError as error:
        fields.problems["dag"] = str(error)
    return await dag_pages.list_ids(db, OFFERED)


async def create(call: Call[Params], body: dict[str, str]) -> str:
    fields = Fields({"dag": "", **body})
    spec = spec_of(fields)
    if spec is None:
        raise fields.error()
    await _check_rights(call, spec)
    row = await backfills.create(call.database, call.settings, call.caller, spec)
    return url("backfills", row.id)


async def _check_rights(call: Call[NewParams] | Call[Params], spec: BackfillSpec) -> None:
    """Also for the DAGs of a cascade. Raises ForbiddenError."""
    dags = await call.database.run(backfills.dags_of, spec)
    check_rights(call, Right.BACKFILL, dags)


def spec_of(fields: Fields) -> BackfillSpec | None:
    """The backfill that the fields ask for; None if one of them has a problem."""
    dates = fields.value("dates", moments) or ()
    first, last = (dates[0], dates[-1]) if dates else (fields.value("start", parse_time), fields.value("end", parse_end))
    reprocess, outlets = fields.value("reprocess", Reprocess), fields.value("outlets", Outlets)
    conf, limits = fields.value("conf", json_object), limits_of(fields)
    problems = {**_problems(fields, len(dates)), **fields.problems}
    if first and last and last < first:
        problems.setdefault("end", "the last date is before the first one")
    fields.problems.update(problems)
    if problems or first is None or last is None:
        return None
    return BackfillSpec(
        dag_id=fields.texts["dag"],
        start_date=first,
        end_date=last,
        logical_dates=dates or None,
        dag_params=conf or {},
        reprocess=reprocess or Reprocess.NONE,
        is_reverse=bool(fields.texts.get("is_reverse")),
        outlets=outlets or Outlets.EVENTS,
        description=fields.texts.get("description", ""),
        ignore_first_depends_on_past=bool(fields.texts.get("ignore_first_depends_on_past")),
        **limits,
    )


def _problems(fields: Fields, dates: int) -> Mapping[str, str]:
    """What is wrong with fields that can be read."""
    texts, found = fields.texts, {}
    if not texts["dag"]:
        found["dag"] = "write the id of a DAG"
    if texts.get("dates") and (texts.get("start") or texts.get("end")):
        found["dates"] = "give either the first and the last date, or a list"
    if not texts.get("dates"):
        found |= {name: "write a date, or list dates" for name in ("start", "end") if not texts.get(name)}
    if dates > MAX_LISTED_DATES:
        found["dates"] = f"at most {MAX_LISTED_DATES} dates; give the first and the last one"
    if len(texts.get("description", "")) > MAX_DESCRIPTION or "\0" in texts.get("description", ""):
        found["description"] = f"write at most {MAX_DESCRIPTION} characters"
    return found


def field_of(error: RequestError) -> str:
    """The field beside which a rejection stands; "" for one that is about none."""
    return NAMES.get(error.field, error.field)


def _form(fields: Fields, found: backfill_preview.Preview | None, dags: Sequence[str]) -> Preview:
    dates, is_known = found.dates if found else (), fields.texts["dag"] and "dag" not in fields.problems
    return Preview(
        title=f"Backfill of {fields.texts['dag']}" if is_known else "New backfill",
        says=[" ".join((*backfill_preview.says(found), "Nothing has changed yet."))]
        if found
        else [INTRODUCTION, *([] if not is_known or fields.problems else [NEXT_STEP])],
        back=url("backfills"),
        button="Create the backfill" if dates else "",
        titles=("Logical date", "What happens", "Existing run", "Reason"),
        rows=[
            (utc(date.logical_date), backfill_preview.ACTIONS[date.action][0], date.run_id or "", date.reason) for date in dates
        ],
        fields=_inputs(fields, dags),
        has_choices=True,
        is_wide=True,
    )


def _inputs(fields: Fields, dags: Sequence[str]) -> list[Field]:
    texts, problems = fields.texts, fields.problems
    plain: list[tuple[str, str, Kind, Sequence[str], str]] = [
        ("dag", "DAG", "text", dags, "its id"),
        ("start", "First date", "text", (), "such as 2013-01-01 or 2013-01-01T06:00; UTC"),
        ("end", "Last date", "text", (), "included; a day is included whole"),
        ("dates", "Or a list of dates", "textarea", (), "between spaces or commas"),
        ("reprocess", "Existing runs that run again", "select", list(Reprocess), "none, failed ones, or all that have ended"),
        ("outlets", "Consumers get", "select", list(Outlets), "the usual events, nothing, or also their runs again"),
        ("conf", "Conf", "textarea", (), "a JSON object, which tasks read as run.params"),
        ("description", "Description", "text", (), "what it is for"),
    ]
    made = [
        Field(name=name, label=label, kind=kind, options=options, hint=hint, value=texts[name], problem=problems.get(name, ""))
        for name, label, kind, options, hint in plain
    ]
    ticks = [checkbox(name, label, is_set=bool(texts[name]), problem=problems.get(name, "")) for name, label in TICKS]
    return [*made, *ticks, *limit_fields(texts, problems)]


NEW = Load("/backfills/new", Right.BACKFILL, preview, NewParams, Preview)
FORM = Form.of(NEW, create, Params, dict[str, str], does="created a backfill", about=(("dag", "DAG"),), keeps_texts=True)
