"""What the end of an attempt means by itself, whatever was decided about its task meanwhile."""

from typing import Any

from msgspec import UNSET

from tidegate.handlers.tasks.advance import Finish
from tidegate.schemas.run import MAX_RESULT_BYTES
from tidegate.schemas.state import TaskState
from tidegate.schemas.wire.event import TaskFinished, encode, storable

OUTCOMES = {
    "succeeded": TaskState.SUCCESS,
    "skipped": TaskState.SKIPPED,
    "failed": TaskState.FAILED,
    "killed": TaskState.FAILED,
    "lost": TaskState.FAILED,
}


def meant(finish: TaskFinished, index: int, try_number: int) -> Finish:
    """What an end means by itself."""
    if finish.outcome == "succeeded" and (wrong := wrong_result(finish.result)):
        return Finish(index, try_number, TaskState.FAILED, wrong)
    follow = None if finish.follow is UNSET else finish.follow
    return Finish(index, try_number, OUTCOMES[finish.outcome], storable(finish.reason), follow)


def wrong_result(result: Any) -> str:
    """Why a result cannot be kept; empty when it can, or when there is none."""
    content = b"" if result is UNSET else encode(result)
    if len(content) > MAX_RESULT_BYTES:
        return f"what it returned is larger than {MAX_RESULT_BYTES} bytes; write it somewhere and return where"
    if b"u0000" in content and b"\\u0000" in content.replace(rb"\\", b""):
        return "what it returned contains a NUL character, which cannot be stored"
    return ""
