"""Pause, unpause, release and trigger a DAG."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon import runs
from tidegate.daemon.api.dags import DagPatch
from tidegate.daemon.audit_entry import pause_text
from tidegate.daemon.gateway import json_input
from tidegate.daemon.gateway.endpoint import Call, Nothing, Read
from tidegate.daemon.gateway.paths import DagPath
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.permissions import Right
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.dag import state_of
from tidegate.daemon.read_model.lookup import find_dag
from tidegate.daemon.web.fields import json_object, json_text
from tidegate.daemon.web.form import Field, Kind, Preview
from tidegate.daemon.web.rendering import dag_url, run_url
from tidegate.daemon.web.screen import Form
from tidegate.handlers.run_requested import RUN_EXISTS
from tidegate.handlers.runs.run_ids import manual_run_id
from tidegate.schemas.error import RequestError, did_you_mean
from tidegate.schemas.json_schema import pointer_of
from tidegate.schemas.message import RunRequested
from tidegate.schemas.params import ParamSpec, in_order
from tidegate.schemas.queries import run_pages, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.text import counted
from tidegate.schemas.time_range import parse_time

PARAM = "param."
"""The prefix of fields that are params of the DAG."""

CONF = "conf"
"""The field with the keys of the conf that are no params, of a DAG that takes any."""

MADE = "made"
"""The field with the id of the run of this form: a form that is sent twice, as by a double click, makes one run."""

CONF_FIELD = Field(
    name=CONF, label="Conf", pointer=f"/{CONF}", kind="textarea", hint="optional; a JSON object, which tasks read as run.params"
)

BOUNDS = {
    "minimum": "{} or more",
    "exclusiveMinimum": "more than {}",
    "maximum": "{} or less",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matches {}",
}
"""The bounds of a JSON Schema in words."""


async def preview_pause(db: Db, call: Call[DagPath]) -> Preview:
    dag = await find_dag(db, call.params.dag_id)
    running = counted(dag.running, "running run goes on", "running runs go on")
    stops = f"No new run starts. {running}, {counted(dag.queued, 'queued one waits', 'queued ones wait')}."
    starts = f"Runs start again; {counted(dag.queued, 'queued run', 'queued runs')} first."
    return Preview(
        title=f"{'Unpause' if dag.is_paused else 'Pause'} {dag.dag_id}",
        says=[starts if dag.is_paused else stops],
        back=dag_url(dag.dag_id),
        button="Unpause" if dag.is_paused else "Pause",
        fields=[Field(name="is_paused", label="", kind="hidden", value="false" if dag.is_paused else "true")],
    )


async def pause(call: Call[DagPath], body: DagPatch) -> str:
    await runs.set_paused(call.database, call.params.dag_id, paused=body.is_paused)
    return dag_url(call.params.dag_id)


async def preview_release(db: Db, call: Call[DagPath]) -> Preview:
    dag = await find_dag(db, call.params.dag_id)
    says = [f"It is held: {dag.hold_reason}", "A daemon decides about it again, and holds it again if the fault is still there."]
    return Preview(
        title=f"Release {dag.dag_id}",
        says=says if dag.held_since else [f"{dag.dag_id} is not held: there is nothing to release."],
        back=dag_url(dag.dag_id),
        button="Release" if dag.held_since else "",
    )


async def release(call: Call[DagPath], _body: Nothing) -> str:
    await runs.release(call.database, call.params.dag_id)
    return dag_url(call.params.dag_id)


async def preview_trigger(db: Db, call: Call[DagPath]) -> Preview:
    dag = await find_dag(db, call.params.dag_id)
    if dag.held_since is not None:
        raise RequestError(f"DAG {dag.dag_id!r} is held: {dag.hold_reason}; no run can be requested until it is released")
    spec = await versions.current_spec(db, dag.dag_id)
    makes = f"One run of version {dag.version} with {counted(len(spec.tasks), 'task', 'tasks')}."
    active = (
        f"{dag.running} of at most {counted(spec.max_active_runs, 'run', 'runs')} active, {counted(dag.queued, 'waits', 'wait')}."
    )
    waits = [f"The DAG is {state_of(dag)}: the run stays queued."] if dag.is_paused or dag.is_stale else []
    return Preview(
        title=f"Trigger {dag.dag_id}",
        says=[f"{makes} {active}", *waits],
        back=dag_url(dag.dag_id),
        button="Trigger",
        fields=[
            *(param_field(name, param) for name, param in in_order(spec.params).items()),
            *([CONF_FIELD] if spec.conf_params.takes_any else []),
            Field(name="logical_date", label="Logical date", hint="optional, such as 2013-01-31 or 2013-01-31T06:00; UTC"),
            Field(name="run_id", label="Run id", hint="optional; made from the time otherwise"),
            Field(name=MADE, label="", kind="hidden", value=manual_run_id(db.now)),
        ],
    )


async def trigger(call: Call[DagPath], body: dict[str, str]) -> str:
    dag_id = call.params.dag_id
    given = {name.removeprefix(PARAM): text for name, text in body.items() if name.startswith(PARAM)}
    spec = await call.service.reader.run(_spec_params, dag_id)
    run_id, date = body.get("run_id", body.get(MADE)), moment_of("logical_date", body)
    conf = {**written_conf(body), **conf_of(spec, given)}
    request = RunRequested(dag_id=dag_id, run_id=run_id, conf=conf, logical_date=date)
    try:
        run = await runs.trigger(call.database, request)
    except RequestError as error:
        if error.reason != RUN_EXISTS or "run_id" in body:
            raise
        run = await _made_before(call.database, request, error)
    return run_url(dag_id, run.run_id)


async def _made_before(database: Database, request: RunRequested, error: RequestError) -> RunRow:
    """The run that this form has made already. Raises the error if there is none, and another run has the logical date."""
    known = await database.run(run_pages.list_runs, dag_id=request.dag_id, run_id=request.run_id, limit=1)
    if not known:
        raise error
    return known[0]


async def _spec_params(db: Db, dag_id: str) -> Mapping[str, ParamSpec]:
    await find_dag(db, dag_id)
    return (await versions.current_spec(db, dag_id)).params


def param_field(name: str, param: ParamSpec) -> Field:
    """The field of a param, by its JSON Schema."""
    schema, has_default = param.schema, param.default is not msgspec.UNSET
    type_ = schema.get("type")
    options = [option if type_ == "string" else json_text(option) for option in schema.get("enum", ())]
    kind = kind_of(schema)
    value = "" if not has_default else param.default if type_ == "string" else json_text(param.default)
    return Field(
        name=PARAM + name,
        label=name,
        pointer=pointer_of(CONF, name),
        kind=kind,
        value=str(value),
        options=options if has_default or not options else ["", *options],
        hint="; ".join(filter(None, hints(param, kind))),
        is_required=not has_default and kind != "checkbox",
        bounds=bounds_of(schema, kind),
        unchecked="false" if kind == "checkbox" else "",
    )


def kind_of(schema: Mapping[str, Any]) -> Kind:
    """How a value of the schema is written."""
    if schema.get("enum"):
        return "select"
    match schema.get("type"):
        case "boolean":
            return "checkbox"
        case "integer" | "number":
            return "number"
        case "string":
            return "date" if schema.get("format") == "date" else "text"
        case _:
            return "textarea"


def bounds_of(schema: Mapping[str, Any], kind: Kind) -> dict[str, str]:
    """The attributes of an input that keep its value within the schema, as far as browsers know them."""
    if kind == "number":
        is_integer = schema.get("type") == "integer"
        step = schema.get("multipleOf", 1 if is_integer else "any")
        names = {"min": schema.get("minimum"), "max": schema.get("maximum"), "step": step}
        return {name: str(value) for name, value in names.items() if value is not None}
    names = {"minlength": schema.get("minLength"), "maxlength": schema.get("maxLength")} if kind == "text" else {}
    return {name: str(value) for name, value in names.items() if value is not None}


def hints(param: ParamSpec, kind: Kind) -> Iterator[str]:
    """What a param is, which values it takes, and its default."""
    yield str(param.schema.get("description") or ("JSON" if kind == "textarea" else ""))
    for keyword, words in BOUNDS.items():
        if keyword in param.schema:
            yield words.format(param.schema[keyword])
    if param.default is not msgspec.UNSET and kind in ("text", "number", "date", "textarea"):
        yield f"empty: the default, {json_text(param.default):.100}"


def conf_of(params: Mapping[str, ParamSpec], given: Mapping[str, str]) -> dict[str, Any]:
    """The conf that the fields of params are. Raises InvalidError for JSON that cannot be read, and a field of no param.

    The types are checked later.
    """
    return {name: _value(name, params, text) for name, text in given.items()}


def written_conf(body: Mapping[str, str]) -> dict[str, Any]:
    """The conf in the field of a DAG that takes any key. Raises InvalidError for a text that is no JSON object."""
    try:
        return json_object(body[CONF]) if CONF in body else {}
    except ValueError as error:
        raise InvalidError(f"{CONF}: {error}", field=CONF) from error


def _value(name: str, params: Mapping[str, ParamSpec], text: str) -> Any:
    if name not in params:
        raise InvalidError(
            f"there is no param {name!r:.200}{did_you_mean(name, params)}; open the form again", field=PARAM + name
        )
    if params[name].schema.get("type") == "string":
        return text
    try:
        return json_input.decode(text.encode())
    except ValueError as error:
        raise InvalidError(f"param {name}: write JSON, such as 3, true or [1, 2] ({error})", field=PARAM + name) from error


def moment_of(name: str, body: Mapping[str, str]) -> datetime | None:
    """The time in a field; UTC without an offset. Raises InvalidError."""
    if name not in body:
        return None
    try:
        return parse_time(body[name])
    except ValueError as error:
        raise InvalidError(f"{name}: {error}", field=name) from error


PAUSE = Read("/dags/{dag_id}/pause", Right.EDIT, preview_pause, DagPath, Preview)
TRIGGER = Read("/dags/{dag_id}/trigger", Right.EDIT, preview_trigger, DagPath, Preview)
RELEASE = Read("/dags/{dag_id}/release", Right.EDIT, preview_release, DagPath, Preview)

FORMS = (
    Form.of(
        PAUSE,
        pause,
        DagPath,
        DagPatch,
        does="paused or unpaused a DAG",
        says=lambda body: pause_text(is_paused=body.is_paused),
    ),
    Form.of(TRIGGER, trigger, DagPath, dict[str, str], does="triggered a run", keeps_texts=True),
    Form.of(RELEASE, release, DagPath, Nothing, does="released a DAG"),
)
