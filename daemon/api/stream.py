"""The API's stream of changes. The pages use it, too."""

from typing import Annotated, Literal

from msgspec import Meta

from tidegate.daemon.gateway.endpoint import Call, Params, Stream
from tidegate.daemon.gateway.problem import InvalidError, TooManyError
from tidegate.daemon.live.hub import OpenStream, Owner
from tidegate.daemon.live.recent import Wanted
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.lookup import NEWEST_RUN, find_dag
from tidegate.schemas.wire.event import Kind

RETRY_S = 30


class Changes(Params, frozen=True):
    """The changes of runs and tasks, or some of them."""

    dag_id: Annotated[str | None, Meta(description="Only of this DAG.")] = None
    run_id: Annotated[str | None, Meta(description="Only of the run with this id.")] = None
    kind: Annotated[Literal["dag-run-state", "task-state"] | None, Meta(description="Only changes of this kind.")] = None
    coalesce: Annotated[
        bool,
        Meta(description="One message `changed` for several changes: its `runs` are pairs of a DAG and a run id, at most 500."),
    ] = False
    after: Annotated[
        str | None, Meta(description="As `Last-Event-ID`, for the first connection of a browser, which cannot send that.")
    ] = None


async def stream(call: Call[Changes]) -> OpenStream:
    """Follow the changes of runs and tasks as server-sent events. With `Last-Event-ID` it continues after that event."""
    hub, params, most = call.service.hub, call.params, call.settings.web_streams
    if params.run_id == NEWEST_RUN:
        raise InvalidError("run_id: a stream follows a run by its id; `latest` would be another run later")
    if params.dag_id is not None:
        await call.service.reader.run(find_dag, params.dag_id)
    owner = Owner(call.caller.username, call.credential_id)
    if hub.opened_by(owner.username) >= most:
        raise TooManyError(f"{owner.username} has {most} open streams, which is the limit; close one, or wait", RETRY_S)
    after = call.facts.last_event_id or params.after
    wanted = Wanted(params.dag_id, params.run_id, Kind(params.kind) if params.kind else None)
    return hub.open(wanted, owner, coalesces=params.coalesce, after=after)


STREAMS = (Stream("/stream", Right.VIEW, stream, Changes),)
