"""Callbacks for tests."""

from tidegate.schemas.receiver import Callback, FunctionReceiver, On


def one_callback_per_occasion() -> tuple[Callback, ...]:
    return tuple(Callback(on, FunctionReceiver(str(on))) for on in On)
