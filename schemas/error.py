"""Errors, classed by what the shell must do about them."""


class TidegateError(Exception):
    """Shown to the user as one sentence; never as a traceback."""


class RejectedError(TidegateError):
    """The record can never be handled: put it aside as a dead letter and go on.

    `reason` is the dead letter's class, one of the constants of `tidegate.schemas.wire.event.Rejection`.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnavailableError(TidegateError):
    """A server cannot be reached: back off and try again. `server` is its name."""

    def __init__(self, message: str, *, server: str = "Kafka") -> None:
        super().__init__(message)
        self.server = server


class FencedError(TidegateError):
    """Another daemon moved the offset or owns the lease: give up this batch and reload."""


class InvariantError(TidegateError):
    """Our own assumptions broke: stop the process, do not guess."""


class RequestError(TidegateError):
    """What a user asked for cannot be done; the message says why and what to do."""


class DagError(TidegateError):
    """What a DAG file says cannot be; the message names the DAG or task and what to write instead.

    `place` is the file and line to blame where that is not where the error was raised.
    """

    def __init__(self, message: str, place: tuple[str, int] | None = None) -> None:
        super().__init__(message)
        self.place = place


class FilterError(TidegateError):
    """A text that is no filter on events: where in it something else was expected."""

    def __init__(self, where: str, character: int, expected: str, found: str) -> None:
        super().__init__(f"at character {character} of {where!r:.200}: expected {expected}, found {found}")
        self.character = character
