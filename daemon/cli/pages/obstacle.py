"""What closed gates wait for, in words."""

from tidegate.daemon.cli.pages.moment import span, utc
from tidegate.daemon.cli.pages.progress import text_of
from tidegate.schemas.explain import gates as shown


def obstacle_text(block: shown.Obstacle | shown.DagObstacle | None) -> str | None:
    """What a closed gate waits for, after the words `waits for`."""
    match block:
        case None:
            return None
        case shown.RunEnded() | shown.TaskEnded() | shown.RuledOut():
            return _text_of_end(block)
        case shown.Outranked(pool, others):
            return f"pool {pool!r}: what is free goes to {_counted(others, 'task', 'tasks')} before it"
        case shown.NotSubmitted(backend, state):
            return f"backend {backend!r}: the attempt is {'an intent' if state == 'intent' else state}"
        case shown.ServerAway(server, error):
            return f"{server}, which no daemon can reach: {error}"
        case shown.InputsMissing() | shown.InputsApart() | shown.ConditionBroken() | shown.Unquiet() | shown.TooSoon():
            return _text_of_condition(block)
        case shown.NoSchedule() | shown.TicksOver() | shown.IntakeHalted():
            return _text_of_schedule(block)
        case _:
            return text_of(block)


def _text_of_condition(
    block: shown.InputsMissing | shown.InputsApart | shown.ConditionBroken | shown.Unquiet | shown.TooSoon,
) -> str:
    match block:
        case shown.InputsMissing(inputs):
            return f"its condition to hold: no event is pending of {', '.join(inputs)}"
        case shown.InputsApart(within_s):
            return f"inputs that happened within {span(within_s)} of each other"
        case shown.ConditionBroken(reason):
            return f"a condition that can be read: {reason}"
        case shown.Unquiet(until):
            return f"quiet: if no more events come, until {utc(until)}"
        case shown.TooSoon(until):
            return f"the time between two runs to pass, until {utc(until)}"


def _text_of_schedule(block: shown.NoSchedule | shown.TicksOver | shown.IntakeHalted) -> str:
    match block:
        case shown.NoSchedule():
            return "somebody who asks for a run: neither datasets nor time start one"
        case shown.TicksOver():
            return "a moment of its timetable: there are no more"
        case shown.IntakeHalted(partitions):
            return f"partitions that stand still: {', '.join(partitions)}"


def _text_of_end(block: shown.RunEnded | shown.TaskEnded | shown.RuledOut) -> str:
    match block:
        case shown.RunEnded(state, reason):
            return f"another run of it: its run has ended as {state}" + (f", {reason}" if reason else "")
        case shown.TaskEnded(state, tries, reason):
            return f"another run of it: it {state} after {_counted(tries, 'try', 'tries')}" + (f", {reason}" if reason else "")
        case shown.RuledOut(_, "removed"):
            return "a run whose logical date is within its dates: it is no part of this one"
        case shown.RuledOut(rule, state):
            return f"another run of it: it was {'skipped' if state == 'skipped' else 'given up'} by {rule}"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
