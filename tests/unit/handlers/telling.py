"""Who is told, in short."""

from tidegate.schemas.receiver import Callback, FunctionReceiver, On


def each_to_its_own() -> tuple[Callback, ...]:
    return tuple(Callback(on, FunctionReceiver(str(on))) for on in On)
