"""The log of one try of a task, read through its backend. Slow to import, for it imports the backends."""

import shlex
from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.log_search import LogMatch, LogMatches, error_at, lines_with, match
from tidegate.daemon.read_model.lookup import started_task
from tidegate.daemon.settings import Settings, spool_root
from tidegate.daemon.spark.contract import Backend, Handle, LogChunk
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.queries import run_pages, submissions
from tidegate.schemas.queries.run_pages import RunAttemptRow
from tidegate.schemas.state import SUBMISSION_OPEN, TASK_ENDED, SubmissionState

Encoding = Literal["text", "base64"]

ERROR_BYTES = 2**20
"""At the end of a log, where its error is looked for."""

FOUND, SEARCHED = 50, 2**25
"""The most lines that a search finds, and about the most bytes that it reads: a request for a log of any size ends in time."""

LONGEST_LINE = 2**20
"""A longer line is searched in parts."""

BEYOND = 2**62
"""An offset at which no log has content: only its size is read."""

BEFORE_START = (SubmissionState.INTENT, SubmissionState.SUBMITTING)


class LogRequest(NamedTuple):
    """The log of one try; `try_number` None stands for the last one."""

    dag_id: str
    run_id: str
    task_id: str
    try_number: int | None

    def __str__(self) -> str:
        return f"task {self.task_id!r} of run {self.run_id!r}"


class Log(msgspec.Struct, frozen=True):
    """The log of a try so far, or a part of it: the bytes from `offset` to `next_offset`. `complete`: nothing follows.

    A log that is followed has no number and no submission before the try begins. `content_encoding` says base64; text has none.
    """

    dag_id: str
    run_id: str
    task_id: str
    try_number: int | None
    submission_id: UUID | None
    complete: bool
    offset: int
    next_offset: int
    content: str
    content_encoding: Literal["base64"] | msgspec.UnsetType = msgspec.UNSET


class LogWindow(NamedTuple):
    """The whole lines of a log between two byte offsets; `size` is that of all of it so far.

    `place`: of the character that is looked for, if it is there.
    """

    text: str
    offset: int
    next_offset: int
    size: int
    place: int | None

    @property
    def is_at_end(self) -> bool:
        return self.next_offset >= self.size


class LocatedLog(NamedTuple):
    """A try whose log is on this host."""

    attempt: RunAttemptRow
    backend: Backend
    handle: Handle


class LogReader:
    """Locates the log of a try, and reads it.

    The readers of a server share its `backends`, which bound the threads that wait for a spool that hangs.
    """

    def __init__(
        self, settings: Settings, database: Database, request: LogRequest, backends: Mapping[str, Backend] | None = None
    ) -> None:
        self._spool = spool_root(settings)
        self._database = database
        self._request = request
        self._backends = open_backends(settings) if backends is None else backends

    async def document(
        self, most: int | None = None, begin: int | None = None, encoding: Encoding = "text", *, is_followed: bool = False
    ) -> Log:
        """The whole log so far; with `most` about that number of bytes from the offset `begin`, or at its end.

        Raises RequestError where there is none. One that is followed is empty before the start of the try.
        """
        found = await (self.find() if is_followed else self.locate())
        if found is None:
            return Log(*self._request[:3], self._request.try_number, None, complete=False, offset=0, next_offset=0, content="")
        return await self._read(found, most, begin, encoding)

    async def window(self, most: int, begin: int | None = None, focus: int | None = None) -> LogWindow:
        """About `most` bytes from `begin`, or around `focus`; else of a failed attempt its error, or the end."""
        found = await self.locate()
        size = await _size(found)
        if begin is None and focus is None and found.attempt.state == SubmissionState.FAILED:
            focus = await self._error(found, size)
        if begin is None:
            begin = max(size - most if focus is None else min(focus - most // 4, size - most), 0)
        begin = max(begin - 1, 0)  # which says whether a line begins at it
        content, _ = await _content(found, begin, most)
        return window_of(bytes(content), begin, max(size, begin + len(content)), focus)

    async def content(self) -> AsyncIterator[bytes]:
        """All bytes of the log so far, in parts. Raises RequestError at once where there is none."""
        found = await self.locate()
        return _parts(found, await _size(found))

    async def _error(self, found: LocatedLog, size: int) -> int | None:
        begin = max(size - ERROR_BYTES, 0)
        content, _ = await _content(found, begin, ERROR_BYTES)
        place = error_at(bytes(content))
        return None if place is None else begin + place

    async def matches(self, text: str, begin: int, limit: int = FOUND, most: int = SEARCHED) -> LogMatches:
        """The first `limit` lines with a text from a byte on, among about `most` bytes."""
        found, wanted = await self.locate(), text.encode()
        matches, place, left = list[LogMatch](), begin, b""
        while chunk := (await found.backend.logs(found.handle, place + len(left))).content:
            part = left + chunk
            whole = part.rfind(b"\n") + 1 or (len(part) if len(part) > LONGEST_LINE else 0)
            for line in lines_with(wanted, part[:whole]):
                if len(matches) == limit:
                    return LogMatches(matches, place + line.begin)
                matches.append(match(part, line, place))
            place, left = place + whole, part[whole:]
            if place - begin >= most:
                return LogMatches(matches, place)
        matches += [match(left, line, place) for line in lines_with(wanted, left)]
        return LogMatches(matches, None)

    async def _read(self, found: LocatedLog, most: int | None, begin: int | None, encoding: Encoding) -> Log:
        attempt = found.attempt
        if begin is None:
            begin = 0 if most is None else max(await _size(found) - most, 0)
        content, chunk = await _content(found, begin, most)
        # A killed runner never completes its log: nothing follows what is there after the end of its attempt.
        complete = chunk.complete or (not chunk.content and attempt.state not in SUBMISSION_OPEN)
        text, left = text_of(content, encoding, final=most is None or complete)
        return Log(
            *self._request[:3],
            try_number=attempt.try_number,
            submission_id=attempt.submission_id,
            complete=complete,
            offset=begin,
            next_offset=begin + len(content) - left,
            content=text,
            content_encoding="base64" if encoding == "base64" else msgspec.UNSET,
        )

    async def locate(self) -> LocatedLog:
        """Raises RequestError where there is no log, or none yet."""
        found = await self.find()
        if found is None:
            words = ("tidegate", "tasks", "logs", *self._request[:3], "--follow")
            raise RequestError(f"{self._request} has not begun yet; `{shlex.join(words)}` waits for its log")
        return found

    async def find(self) -> LocatedLog | None:
        """None before the start of the try. Raises RequestError where there will be no log on this host."""
        attempt = await self._attempt()
        return None if attempt is None else await self._on_this_host(attempt)

    async def _attempt(self) -> RunAttemptRow | None:
        """None while a try may still come. Raises RequestError where none will."""
        dag_id, run_id, task_id, try_number = self._request
        tries = await self._database.run(run_pages.attempts_of, dag_id, run_id, task_id)
        if not tries:
            await self._check_task()
            return None
        if try_number is None:
            return tries[-1]
        if not (found := [attempt for attempt in tries if attempt.try_number == try_number]):
            raise RequestError(f"{self._request} has no try {try_number}; its last one is {tries[-1].try_number}")
        return found[0]

    async def _check_task(self) -> None:
        dag_id, run_id, task_id, _ = self._request
        first = f"{task_id}[0]"
        task = await self._database.run(started_task, dag_id, run_id, task_id)
        if task is None:
            return
        if (await self._database.run(run_pages.task_of, dag_id, run_id, first)) is not None:
            raise RequestError(f"{self._request} is mapped: each of its instances has a log of its own, such as {first!r}")
        if task.state in TASK_ENDED:
            raise RequestError(f"{self._request} has no log: it is {task.state}, and nothing was run for it")

    async def _on_this_host(self, attempt: RunAttemptRow) -> LocatedLog | None:
        """None before the start of the try. Raises RequestError for a log that is not on this host."""
        backend = backend_of_try(self._backends, attempt, self._request)
        elsewhere = backend.host is not None and attempt.host not in (None, backend.host)
        handle = None if elsewhere else await backend.find(attempt.submission_id)
        if handle is not None:
            return LocatedLog(attempt, backend, handle)
        if attempt.state in BEFORE_START and not elsewhere:
            return None
        where = location(attempt, self._request, backend.host)
        raise RequestError(
            f"the log of try {attempt.try_number} of {self._request} is not on this host below {self._spool}: {where}"
        )

    async def has_ended(self, attempt: RunAttemptRow) -> bool:
        """Whether the attempt has ended, or its DAG was deleted; False while Postgres is away."""
        try:
            found, _ = await self._database.run(submissions.read_with_tasks, [attempt.submission_id])
        except UnavailableError:
            return False
        row = found.get(attempt.submission_id)
        return row is None or row.state not in SUBMISSION_OPEN


def window_of(content: bytes, begin: int, size: int, focus: int | None) -> LogWindow:
    """The whole lines of a part of a log; all of it if it has none."""
    first = content.find(b"\n") + 1 if begin else 0
    is_cut = begin + len(content) < size
    last = content.rfind(b"\n") + 1 if is_cut else len(content)
    first, last = (first, last) if first < last else (0, len(content))
    whole, offset = content[first:last], begin + first
    is_within = focus is not None and offset <= focus < offset + len(whole)
    before = whole[: focus - offset] if focus is not None and is_within else None
    place = None if before is None else len(before.decode(errors="replace"))
    return LogWindow(whole.decode(errors="replace"), offset, begin + last, size, place)


async def _size(found: LocatedLog) -> int:
    return (await found.backend.logs(found.handle, BEYOND)).size


async def _parts(found: LocatedLog, size: int) -> AsyncIterator[bytes]:
    """A log that goes on would never end: it is as long as it was."""
    place = 0
    while place < size and (chunk := (await found.backend.logs(found.handle, place)).content):
        yield chunk[: size - place]
        place += len(chunk)


async def _content(found: LocatedLog, begin: int, most: int | None) -> tuple[bytearray, LogChunk]:
    """The bytes from `begin` on, at least `most` or up to the end of the log, and the chunk that was read last."""
    # Appending to bytes would copy the whole log for each chunk.
    content = bytearray()
    while (chunk := await found.backend.logs(found.handle, begin + len(content))).content:
        content += chunk.content
        if most is not None and len(content) >= most:
            break
    return content, chunk


def backend_of_try(backends: Mapping[str, Backend], attempt: RunAttemptRow, request: LogRequest) -> Backend:
    """Raises RequestError for a backend of a later version, whose daemons may run beside an earlier command or page."""
    if attempt.backend in backends:
        return backends[attempt.backend]
    raise RequestError(
        f"try {attempt.try_number} of {request} ran on backend {attempt.backend!r}, which tidegate {version('tidegate')} here"
        f" does not have ({', '.join(sorted(backends))}): read its log with the version of its daemon"
    )


def text_of(content: bytes | bytearray, encoding: Encoding, *, final: bool) -> tuple[str, int]:
    """A part of a log as text, and the number of bytes at its end that begin a character which the next part completes."""
    if encoding == "base64":
        return b64encode(content).decode(), 0
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content, final)
    return text, len(decoder.getstate()[0])


def location(attempt: RunAttemptRow, request: LogRequest, here: str | None) -> str:
    """Where the log of a try is that this host, named `here`, does not have, and how to read it."""
    host = _on_host(attempt, request, here) if attempt.host else "no host is recorded for it"
    return host if attempt.state in SUBMISSION_OPEN else f"{host}; it has ended: {attempt.state}"


def _on_host(attempt: RunAttemptRow, request: LogRequest, here: str | None) -> str:
    if attempt.host == here:
        return "it ran here, and its log was removed, as all are after TIDEGATE_SPOOL_DAYS"
    words = ("tidegate", "tasks", "logs", request.dag_id, request.run_id, request.task_id, "--try", str(attempt.try_number))
    file = f", from {attempt.log_path}" if attempt.log_path else ""
    return f"it ran on {attempt.host}; there, with the TIDEGATE_SPOOL_DIR of its daemon, `{shlex.join(words)}` prints it{file}"
