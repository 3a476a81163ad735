"""What decisions may do to the world. The engine groups the effects of a batch by type and performs each group at once."""

import msgspec

from tidegate.schemas.effect.audit import RecordAudit
from tidegate.schemas.effect.backfill import BackfillEffect
from tidegate.schemas.effect.dag import DagEffect
from tidegate.schemas.effect.deadline import DeadlineEffect
from tidegate.schemas.effect.run import RunEffect
from tidegate.schemas.effect.submission import SubmissionEffect
from tidegate.schemas.effect.task import TaskEffect


class RejectMessage(msgspec.Struct, frozen=True):
    """The message cannot be handled: a dead letter, or the answer to the command. `index` is its position in the batch.

    A request of a user is a batch of its own. `field`: of the request, the one to change; empty if it is about none.
    """

    reason: str
    message: str
    field: str = ""
    index: int = 0


Effect = BackfillEffect | DagEffect | DeadlineEffect | RunEffect | SubmissionEffect | TaskEffect | RecordAudit | RejectMessage
