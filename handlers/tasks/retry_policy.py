"""When a failed task is tried again."""

from datetime import timedelta
from hashlib import sha256
from math import ceil, log

from tidegate.schemas.dag import BaseTask


def retry_delay(task: BaseTask, name: str, try_number: int) -> timedelta:
    """The time between the end of try `try_number` (from 1) and the next one.

    Without a factor it is fixed. With a factor, m <= delay < 2m seconds, where m = ceil(retry_delay · factor^(try - 1)), capped
    at `max_retry_delay`. The spread is a hash of `name` and the try number: tasks that fail together are retried at different
    times, and the delay of a try is the same each time it is computed.
    """
    if task.retry_factor == 1 or not task.retry_delay_s:
        return timedelta(seconds=task.retry_delay_s)
    if log(task.retry_delay_s) + (try_number - 1) * log(task.retry_factor) > log(task.max_retry_delay_s):
        return timedelta(seconds=task.max_retry_delay_s)
    least = ceil(task.retry_delay_s * task.retry_factor ** (try_number - 1))
    spread = int.from_bytes(sha256(f"{name}#{try_number}".encode()).digest()[:8]) % least
    return timedelta(seconds=min(least + spread, task.max_retry_delay_s))
