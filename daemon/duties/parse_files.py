"""Parses the files that events name. A file that takes long is parsed in the background, and delays no event of other files."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup, TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.dagfiles.parse import Parser
from tidegate.daemon.dagfiles.reading import in_thread
from tidegate.daemon.dagfiles.scan import files_of, reported_files
from tidegate.daemon.dagfiles.source import archive_file, differing
from tidegate.daemon.dagfiles.watch import digests
from tidegate.daemon.duties.dag_folder import known_files, publish_changed
from tidegate.daemon.fault_log import faults
from tidegate.daemon.outage import Retry
from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.wake import Signal
from tidegate.events.sink import Sink
from tidegate.schemas.dag import ARCHIVE, AWAITED_DIGEST, REPEAT_DIGEST, DagSpec, ImportProblem, ParsedFile, archive_of
from tidegate.schemas.error import FATAL
from tidegate.schemas.message import Message
from tidegate.schemas.receiver import EmailReceiver
from tidegate.schemas.wire.event import DagFileChanged

log = structlog.get_logger()

PATIENCE_S = 1.0
"""A batch of events waits this long for its files."""

GATHER_S = 0.1
"""Pause after a report of late results, so that thousands of them take few transactions."""

KEEP_S = 60.0
"""A result waits this long for the event that asks for it."""


class Parse:
    """A parse of a file in its content of `digest`. `file` is the result. `is_late`: no batch waits for it any more.

    `group` are the parses of its archive without which the result is not taken; empty for one that needs no others.
    """

    def __init__(self, since: datetime, digest: str) -> None:
        self.since = since
        self.digest = digest
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()
        self.file: ParsedFile | None = None
        self.is_late = False
        self.group: Collection[Parse] = ()

    @property
    def is_held(self) -> bool:
        """Whether another file of the archive is still being parsed."""
        return not all(parse.done.is_set() for parse in self.group)

    def cancel(self) -> None:
        self.scope.cancel()
        self.done.set()


class FileParsing:
    """Parses each file at most once at a time.

    A file without a result after `PATIENCE_S` gets a problem that says so. When its result is there, the file is reported by
    another event, which applies the result: so results are applied in the order of events, by the owner of the partition.
    The results of an archive are taken together, in one transaction: each waits for the last one, which alone is reported.
    If this daemon ends before, a watcher reports the file, because the recorded digest is not its own.
    """

    def __init__(self, context: Context, parser: Parser, tasks: TaskGroup) -> None:
        self._context = context
        self._root = dags_root(context.settings)
        self._parser = parser
        self._tasks = tasks
        self._parses: dict[str, Parse] = {}
        self._late: set[str] = set()
        self._has_late = Signal()

    async def parse(self, messages: Sequence[Message[DagFileChanged]]) -> Sequence[Message[ParsedFile]]:
        """The results of the files that the events name, before the transaction of the batch begins.

        An event of a file in an archive is one of the archive.
        """
        named = await in_thread(reported_files, self._root, {message.body.path for message in messages})
        members = await self._members(set(named.values()))
        parses = await self._begin({*members, *chain.from_iterable(members.values())})
        with anyio.move_on_after(PATIENCE_S):
            await self._wait(parses)
        # Imports are compared last: the event of a change may find a parse that began before the change.
        parses |= await self._begin(await self._outdated(parses))
        bind(parses, members.values())
        files = {path: file for path, parse in parses.items() if (file := self._take(path, parse)) is not None}
        shown = {path: files.get(path) or awaited(path, parses[path].since) for path in members}
        wholes = {path: whole(shown[path], [files[it] for it in inside if it in files]) for path, inside in members.items()}
        return [Message(body=wholes[named[message.body.path]], at=message.at, id=message.id) for message in messages]

    async def _members(self, paths: Collection[str]) -> Mapping[str, Sequence[str]]:
        """By path, the DAG files of an archive, now and before: a change of the archive changes all of them at once.

        A folder that has taken the place of an archive has none: each of its files is one by itself.
        """
        found: dict[str, set[str]] = {}
        for path in paths:
            if path.endswith(ARCHIVE) and await in_thread(archive_file, self._root, f"{path}/") is not None:
                found[path] = set(await in_thread(files_of, self._root, path))
        for file in await known_files(self._context) if found else ():
            if (archive := archive_of(file)) in found:
                found[archive].add(file)
        return {path: sorted(found.get(path, ())) for path in paths}

    async def report_late(self, *, task_status: TaskStatus[None]) -> None:
        """Report files with late results, for ever; retried while Kafka is away."""
        async with Sink(self._context.settings.kafka_servers, security=self._context.settings.kafka_security) as sink:
            task_status.started()
            while True:
                await self._has_late.wait(self._context.settings.sweep_s)
                late, self._late = sorted(self._late), set()
                if late:
                    await publish_changed(self._context, sink, late)
                    await anyio.sleep(GATHER_S)

    async def _wait(self, parses: dict[str, Parse]) -> None:
        """Wait for the parses; one whose file or imports have changed since it read them is replaced by another one."""
        former: Mapping[str, Parse] = {}
        while former != parses:
            former = dict(parses)
            for parse in former.values():
                await parse.done.wait()
            parses |= await self._begin(parses)

    async def _begin(self, paths: Collection[str]) -> dict[str, Parse]:
        """The parses of the current contents and imports; those of former ones are cancelled."""
        if not paths:
            return {}
        contents = await in_thread(digests, self._root, paths)
        outdated = await self._outdated({path: self._parses[path] for path in paths if path in self._parses})
        return {path: self._current(path, content, is_outdated=path in outdated) for path, content in contents.items()}

    def _current(self, path: str, content: str, *, is_outdated: bool) -> Parse:
        """The parse of this content, which begins now unless there is one."""
        current = self._parses.get(path)
        if current is not None and current.digest == content and not is_outdated:
            return current
        if current is not None:
            current.cancel()
        parse = self._parses[path] = Parse(self._context.database.clock.known(), content)
        self._tasks.start_soon(self._run, path, parse)
        return parse

    async def _run(self, path: str, parse: Parse) -> None:
        with parse.scope:
            parse.file = await self._parsed(path)
            parse.done.set()
            if parse.is_late and not parse.is_held:
                self._late.add(path)
                self._has_late.set()
            await keep(parse)
            self._forget(path, parse)

    async def _parsed(self, path: str) -> ParsedFile:
        """The result; an error of the parser itself is a problem of this file alone."""
        try:
            file = await Retry(self._context.outages, ends_outages=True).until_done(self._parser.parse, path)
            warn_without_mail(self._context.settings, file.dags)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - any fault of the parser concerns this file alone
            faults.report("dag_file_not_parsed", error, path=path)
            where = f"see the log of the daemon on {self._context.settings.host}"
            return unparsed(path, f"the parser failed with {type(error).__name__}: {error}; {where}")
        return file

    async def _outdated(self, parses: Mapping[str, Parse]) -> Collection[str]:
        """The files whose imports have changed since they were parsed."""
        imports = {path: parse.file.imports for path, parse in parses.items() if parse.file is not None and parse.file.imports}
        return await in_thread(differing, self._root, imports) if imports else ()

    def _take(self, path: str, parse: Parse) -> ParsedFile | None:
        """The result, or that it is awaited; None for a result that waits for others of its archive."""
        if parse.file is None:
            parse.is_late = True
            return awaited(path, parse.since)
        if parse.is_held:
            return None
        self._forget(path, parse)
        return parse.file

    def _forget(self, path: str, parse: Parse) -> None:
        """No event will ask for the result any more, so nothing waits for one."""
        if self._parses.get(path) is parse:
            del self._parses[path]
            parse.scope.cancel()


def bind(parses: Mapping[str, Parse], archives: Iterable[Sequence[str]]) -> None:
    """Let the results of each archive wait for each other, and those of other files for none: they may have been in one."""
    for parse in parses.values():
        parse.group = ()
    for inside in archives:
        group = [parses[path] for path in inside]
        for parse in group:
            parse.group = group


async def keep(parse: Parse) -> None:
    """Return when no event will ask for the result any more."""
    await anyio.sleep(KEEP_S)
    if parse.is_held:
        for other in parse.group:
            await other.done.wait()
        await anyio.sleep(KEEP_S)


def whole(file: ParsedFile, members: Sequence[ParsedFile]) -> ParsedFile:
    """An archive with its files; other files as they are."""
    return msgspec.structs.replace(file, members=tuple(members)) if members else file


def unparsed(path: str, reason: str) -> ParsedFile:
    """A file whose DAGs are not known yet; watchers report it again."""
    return ParsedFile(path=path, digest=REPEAT_DIGEST, problem=ImportProblem(reason=reason))


def awaited(path: str, since: datetime) -> ParsedFile:
    """A file that is still being parsed."""
    archive = archive_of(path)
    whose = "its DAGs" if archive is None else f"the DAGs of {archive}"
    file = unparsed(path, f"it is being parsed since {since:%Y-%m-%d %H:%M:%S} UTC; {whose} stay as they are until then")
    return msgspec.structs.replace(file, digest=AWAITED_DIGEST, is_awaited=True)


def warn_without_mail(settings: Settings, specs: Sequence[DagSpec]) -> None:
    """Warn of DAGs with mail receivers while no mail server is configured."""
    for spec in () if settings.smtp_host else specs:
        receivers = (callback.receiver for part in (spec, *spec.tasks) for callback in part.callbacks)
        if any(isinstance(receiver, EmailReceiver) for receiver in receivers):
            log.warning("mail_not_configured", dag_id=spec.dag_id, hint="its notifications by mail fail; set TIDEGATE_SMTP_HOST")
