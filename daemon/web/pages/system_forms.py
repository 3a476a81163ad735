"""Resume a halted partition, and settle a loss of commits."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tidegate.daemon.api.installation import LossPath, Settle, settle_loss
from tidegate.daemon.gateway.endpoint import Call, Load, Params, Read
from tidegate.daemon.intake import resumption
from tidegate.daemon.intake.resumption import BackwardsError, Halted, OffsetError, find_halted
from tidegate.daemon.permissions import Right
from tidegate.daemon.web.form import Field, Preview, RejectedFormError
from tidegate.daemon.web.rendering import url
from tidegate.daemon.web.screen import Form
from tidegate.schemas.effect.audit import OF_LOSS, OF_PARTITION
from tidegate.schemas.error import NotFoundError, StaleError
from tidegate.schemas.queries import losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.text import utc

Topic = Literal["", "lost its end", "was created again"]


class PartitionName(Params, frozen=True):
    """A partition by its name, which has a slash."""

    partition: str = ""


class ResumeBody(PartitionName, frozen=True):
    """The offset, and for an earlier one what became of the topic.

    `shown`: where the partition stood in the form; `earliest` and `latest`: the range of its log there.
    """

    at: str = ""
    topic: Topic = ""
    shown: int | None = None
    earliest: int | None = None
    latest: int | None = None

    def offset(self) -> str:
        """The text of `at`; for `earliest` and `latest` the offset that the form showed, because the log has grown since."""
        offset = {"earliest": self.earliest, "latest": self.latest}.get(self.at)
        return self.at if offset is None else str(offset)


async def preview_resume(call: Call[PartitionName]) -> Preview:
    return _form(await find_halted(call.service.database, call.settings, call.params.partition), ResumeBody(at="earliest"), {})


def _form(halted: Halted, body: ResumeBody, problems: Mapping[str, str]) -> Preview:
    incident, bounds = halted
    return Preview(
        title=f"Resume {incident.partition}",
        says=[
            f"It is not read: its next offset is {incident.next_offset}, and its log holds {bounds.start} to {bounds.end} now.",
            "A daemon continues it within seconds. Your name and both offsets are recorded.",
        ],
        back=url("system"),
        button="Resume the partition",
        titles=("At", "Offset", "What happens"),
        rows=[_choice(halted, at) for at in ("earliest", "latest")],
        fields=_fields(halted, body, problems),
        is_destructive=bounds.end > incident.next_offset,
    )


def _fields(halted: Halted, body: ResumeBody, problems: Mapping[str, str]) -> list[Field]:
    incident, bounds = halted
    hint = f"earliest, latest, or an offset from {bounds.start} to {bounds.end}"
    fields = [
        *_hidden(halted),
        Field(name="at", label="At", value=body.at, hint=hint, problem=problems.get("at", "")),
    ]
    if bounds.start < incident.next_offset:
        problem = problems.get("topic", "")
        fields.append(msgspec.structs.replace(_TOPIC, value=body.topic, problem=problem))
    return fields


def _hidden(halted: Halted) -> list[Field]:
    incident, (start, end) = halted
    values = {"partition": incident.partition, "shown": incident.next_offset, "earliest": start, "latest": end}
    return [Field(name=name, label="", kind="hidden", value=str(value)) for name, value in values.items()]


_TOPIC = Field(
    name="topic",
    label="For an earlier offset: the topic",
    kind="select",
    options=("", "lost its end", "was created again"),
    hint="lost its end: records read before have no effect twice; was created again: records without an id count as new",
)


def _choice(halted: Halted, at: str) -> tuple[str, str, str]:
    stood_at, offset = halted.incident.next_offset, halted.offset(at)
    is_back = offset < stood_at
    what = f"it goes back by {stood_at - offset} offsets" if is_back else resumption.consequence(stood_at, offset, is_new=False)
    return at, str(offset), what


async def resume(call: Call[Params], body: ResumeBody) -> str:
    halted = await find_halted(call.service.database, call.settings, body.partition)
    if body.shown is not None and halted.incident.next_offset != body.shown:
        raise StaleError(f"{body.partition} was halted again at {halted.incident.next_offset}; open the form again")
    is_new = {"lost its end": False, "was created again": True}.get(body.topic)
    try:
        database, within_s = call.database, resumption.REQUEST_S
        await resumption.resume(database, call.caller.username, halted, body.offset(), is_new=is_new, within_s=within_s)
    except OffsetError as error:
        raise RejectedFormError(error, _form(halted, body, {"at": str(error)})) from error
    except BackwardsError as error:
        raise RejectedFormError(error, _form(halted, body, {"topic": str(error)})) from error
    return url("system")


async def preview_settle(db: Db, call: Call[LossPath]) -> Preview:
    id_ = call.params.id
    for loss in await losses.list_losses(db, settled=False):
        if loss.id == id_:
            return _settlement(id_, f"{utc(loss.since)} to {utc(loss.until)}")
    raise NotFoundError(f"there is no open loss {id_}; `tidegate losses list --all` shows all")


def _settlement(id_: int, lost: str) -> Preview:
    return Preview(
        title=f"Settle loss {id_}",
        says=[
            f"Postgres has lost commits of {lost}. Check the runs and the requests of this time first.",
            "Reminders of it stop, and so does the search on the backends before each submission.",
            "It brings nothing back. Your name and the reason are recorded.",
        ],
        back=url("system"),
        button="Settle the loss",
        fields=[Field(name="because", label="What was done about it", hint="recorded with it", is_required=True)],
        is_destructive=True,
    )


async def settle(call: Call[LossPath], body: Settle) -> str:
    await settle_loss(call, body)
    return url("system")


RESUME = Load("/topics/resume", Right.OPERATE, preview_resume, PartitionName, Preview)
SETTLE = Read("/losses/{id}/settle", Right.OPERATE, preview_settle, LossPath, Preview)

FORMS = (
    Form.of(RESUME, resume, Params, ResumeBody, does="resumed a partition", about=OF_PARTITION),
    Form.of(SETTLE, settle, LossPath, Settle, does="settled a loss of commits", about=OF_LOSS, keeps_texts=True),
)
