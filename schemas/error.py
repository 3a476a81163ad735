"""Errors, one class for each reaction of a daemon or the command line."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Self

import msgspec

FATAL = (MemoryError,)
"""Faults of the process, and not of its input. No containment catches them: they end the daemon, which systemd restarts."""


class TidegateError(Exception):
    """Its message is one sentence for users, shown without a traceback. `is_recorded`: the audit log has this refusal."""

    is_recorded = False


class RejectedError(TidegateError):
    """The record can never be handled. The daemon stores it as a dead letter and continues.

    `reason` is the class of the dead letter: one of the constants of `tidegate.schemas.wire.event.Rejection`.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


POSTGRES, KAFKA = "Postgres", "Kafka"
"""The servers of an UnavailableError that everything needs."""

SPOOL, RUNNERS = "the spool", "the runners"
"""The servers of an UnavailableError whose outage keeps tasks from starting: the spool directory; processes of the host."""


CLUSTERS = "a Spark cluster"
"""The server of an UnavailableError that an attempt which was killed may still use."""


DUTY = "duty "
"""Before the name of a duty that fails, where outages have names. It fails on its own, and starts again."""


UNREAD = "Kafka partition "
"""Before the key of a partition that a daemon does not read, where outages have names."""

UNSENT = "Kafka outgoing "
"""Before the name of a topic, partition or shard whose events the relay cannot publish, where outages have names."""


class UnavailableError(TidegateError):
    """The server named `server` cannot be reached. The caller tries again, with growing delays.

    `may_be_done`: the server was asked to store the change, and did not answer.
    """

    may_be_done = False

    def __init__(self, message: str, *, server: str = KAFKA) -> None:
        super().__init__(message)
        self.server = server


class NotStartedError(UnavailableError):
    """A submit that has started nothing and never will. Another host may have the attempt."""


class UnknownClusterError(NotStartedError):
    """The host does not know the `cluster` of the task. A host that does may have the attempt."""

    def __init__(self, message: str, cluster: str) -> None:
        super().__init__(message, server=RUNNERS)
        self.cluster = cluster


class TooSlowError(UnavailableError):
    """The server answers, but a transaction exceeds its time. A smaller batch may succeed; of one message it is an outage."""


class LockedError(TooSlowError):
    """Another session holds a row that the transaction needs. A smaller batch may succeed; this is no outage of Postgres."""


class FencedError(TidegateError):
    """Another daemon moved the offset or owns the lease. The caller drops the batch and reads the offsets again."""


class InvariantError(TidegateError):
    """An invariant is violated. The daemon contains it as any other fault of its own."""


class DagFaultError(TidegateError):
    """A decision about DAGs failed, or their stored versions cannot be read. The daemon holds them and decides about the others.

    `reasons`: by DAG, one line for its user.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"DAG {dag_id!r}: {reason}" for dag_id, reason in reasons.items()))
        self.reasons = reasons


class _Blame:
    """Makes every exception of a block a fault of the DAG. `found` gets the fault; without it the fault is raised.

    A class, because a generator takes four times as long, and each event passes several blocks.
    """

    __slots__ = ("_dag_id", "_found")

    def __init__(self, dag_id: str, found: list[DagFaultError] | None = None) -> None:
        self._dag_id = dag_id
        self._found = found

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        if error is None or not isinstance(error, Exception) or isinstance(error, FATAL):
            return None
        if isinstance(error, DagFaultError):
            fault = error
        else:
            fault = DagFaultError({self._dag_id: f"a decision failed: {described(error)}"})
            fault.__cause__ = error
        if self._found is None:
            raise fault
        self._found.append(fault)
        return True


def blame(dag_id: str) -> _Blame:
    """Every exception of the block is a fault of this DAG."""
    return _Blame(dag_id)


class Faults:
    """Decides about each of several DAGs, also after a fault: at its end, a block raises one DagFaultError for all of them.

    The block may end with a DagFaultError of its own.

    with Faults() as faults:
        for dag in dags:
            with faults.of(dag.dag_id): ...
    """

    def __init__(self) -> None:
        self._found: list[DagFaultError] = []

    def of(self, dag_id: str) -> _Blame:
        """Every exception of the block is a fault of this DAG, and is raised later."""
        return _Blame(dag_id, self._found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DagFaultError):
            self._found.append(error)
        elif error is not None:
            return
        if self._found:
            reasons = {dag_id: reason for found in reversed(self._found) for dag_id, reason in found.reasons.items()}
            raise DagFaultError(reasons) from self._found[0].__cause__


def described(error: BaseException) -> str:
    """The type and the message of an exception, in one line of at most 300 characters that Postgres can store."""
    line = " ".join(f"{type(error).__name__}: {error}".split()).replace("\0", r"\0")
    return line.encode(errors="backslashreplace").decode()[:300]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one; empty if none is near."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


class RequestError(TidegateError):
    """The request of a user is refused; the message says why and what to do instead.

    `reason` is the kind of the refusal: the reason of a `RejectMessage`, or "invalid". `field` is that of the request to change;
    empty for a refusal that is about none.
    """

    def __init__(self, message: str, *, reason: str = "invalid", field: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.field = field


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value of a request that is refused: the JSON Pointer that leads to it, what is wrong, and what to do."""

    pointer: str
    problem: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.problem}; {self.remedy}" if self.remedy else self.problem


def sentence_of(findings: Sequence[Finding]) -> str:
    return ". ".join(finding.sentence for finding in findings)


class UnfitError(RequestError):
    """Values of a request do not fit: the `summary` says which request. The pointers of `findings` begin with its field."""

    def __init__(self, summary: str, findings: Sequence[Finding], *, field: str = "") -> None:
        super().__init__(f"{summary}: {sentence_of(findings)}", field=field)
        self.summary = summary
        self.findings = tuple(findings)


class NotFoundError(RequestError):
    """The subject of a request does not exist."""


class StaleError(RequestError):
    """The subject of a change is not as its user saw it."""


class ForbiddenError(RequestError):
    """The caller lacks the right that a request needs; the message says which."""


class DagError(TidegateError):
    """A mistake in a DAG file; the message names the DAG or task and what to write instead.

    `place` is the file and line of the mistake, if the error is raised elsewhere.
    """

    def __init__(self, message: str, place: tuple[str, int] | None = None) -> None:
        super().__init__(message)
        self.place = place


class FilterError(TidegateError):
    """A syntax error in a filter on events, at the position `character`."""

    def __init__(self, where: str, character: int, expected: str, found: str, hint: str = "") -> None:
        super().__init__(f"at character {character} of {where!r:.200}: expected {expected}, found {found}{hint}")
        self.character = character
