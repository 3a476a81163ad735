"""Deadlines that are missed soon."""

import anyio

SOON = "deadlines=[Deadline('soon', after=timedelta(seconds=0.2), since='queued_at')]"
AT_WORK = "command('a', ['true'])"
LATE_INPUTS = (
    "schedule=Timed(Dataset('s://a') & Dataset('s://b'), deadline=InputDeadline(after=timedelta(seconds=0.2), fallback='alert'))"
)


async def the_time_comes() -> None:
    await anyio.sleep(0.25)
