"""Parses DAG files: reads a file, executes it in a sandbox and validates the untrusted result."""

import os
import re
import signal
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager

import anyio
import msgspec

from tidegate.daemon.dagfiles.applications import application_paths, with_digests
from tidegate.daemon.dagfiles.message import DENIED, MAX_IMPORTS, Limits, Outcome, Reply, Request, Script, decode_outcome, encode
from tidegate.daemon.dagfiles.reading import in_thread
from tidegate.daemon.dagfiles.sandbox import GoneError, Zygotes, open_zygotes
from tidegate.daemon.dagfiles.slots import Slots
from tidegate.daemon.dagfiles.source import ReadImports, RefusedError, Source, is_blank, read, read_imports, with_imports
from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.spark.process import signal_name
from tidegate.schemas.authoring.validation import validate_dag
from tidegate.schemas.dag import REPEAT_DIGEST, ImportProblem, ModuleSource, ParsedFile, contains_nul, encode_spec
from tidegate.schemas.error import DagError
from tidegate.schemas.queries.memory import Bounded

AT_ONCE, LONG_AT_ONCE = 4, 2
QUICK_S = 2.0
"""A file that takes longer is stopped, and parsed again in one of `LONG_AT_ONCE` other slots, where it delays only its like."""

TRIES = 3
MAX_SHARED_BYTES = 32 << 20

_UNPRINTABLE = re.compile("[\0\ud800-\udfff]")


class Parser:
    """Parses files in parallel, isolated from each other: `AT_ONCE`, and `LONG_AT_ONCE` more that take over `QUICK_S`.

    `_long` has the digests of the latter, by path.
    """

    def __init__(self, settings: Settings, zygotes: Zygotes) -> None:
        self._root = dags_root(settings)
        self._pauses_new = settings.new_dags_paused
        self._limits = Limits(
            wall_s=settings.parse_wall_s,
            cpu_s=settings.parse_cpu_s,
            memory_mb=settings.parse_memory_mb,
            output_mb=settings.parse_output_mb,
        )
        self._zygotes = zygotes
        self._quick_slots, self._long_slots = Slots(AT_ONCE), Slots(LONG_AT_ONCE)
        self._long: dict[str, str] = {}
        self._modules: Bounded[ModuleSource, ModuleSource] = Bounded(MAX_SHARED_BYTES)

    async def parse(self, path: str) -> ParsedFile:
        """Parse the file at `path`, relative to the DAG folder. Errors in the file become its problem.

        Raises UnavailableError when the zygote cannot be started.
        """
        for _ in range(TRIES):
            if (file := await self._parse(path)) is not None:
                return file
        reason = f"files that it reads changed during {TRIES} parses; it is parsed again"
        return ParsedFile(path=path, digest=REPEAT_DIGEST, problem=ImportProblem(reason=reason))

    async def _parse(self, path: str) -> ParsedFile | None:
        """The result; None if a file that it read has changed meanwhile."""
        try:
            source = await in_thread(read, self._root, path)
        except RefusedError as error:
            return ParsedFile(path=path, digest=error.digest, problem=ImportProblem(reason=str(error)))
        if source is None:
            return ParsedFile(path=path, digest=None)
        outcome, duration_s = (Outcome(), 0.0) if is_blank(source) else await self._run(path, source)
        reported = {**dict.fromkeys(application_paths(outcome.dags), DENIED), **outcome.imports, **source.imports}
        imports = await in_thread(read_imports, self._root, reported) if reported else ReadImports()
        if imports is None:
            return None
        modules = merged((*imports.modules, *source.modules))
        return ParsedFile(
            path=path,
            digest=REPEAT_DIGEST if self._is_repeated(outcome, duration_s) else with_imports(source.digest, imports.digests),
            imports=imports.digests,
            modules=tuple(map(self._shared, modules)),
            source=source.text,
            dags=tuple(with_digests(spec, modules) for spec in outcome.dags),
            problem=outcome.problem,
            uncompiled=outcome.uncompiled,
            pauses_new=self._pauses_new,
            duration_s=duration_s,
        )

    def _is_repeated(self, outcome: Outcome, duration_s: float) -> bool:
        """Whether a further parse of the same content may give another result."""
        return (outcome.problem is not None and outcome.may_pass) or duration_s >= self._limits.wall_s

    def _shared(self, module: ModuleSource) -> ModuleSource:
        """The same object for the same content: thousands of files may import a module."""
        if module not in self._modules:
            self._modules.remember(module, module, len(module.source))
        return self._modules[module]

    async def _run(self, path: str, source: Source) -> tuple[Outcome, float]:
        """The outcome, and the time that it took without the wait for a slot."""
        if self._long.get(path) != source.digest:
            async with self._quick_slots.one():
                with anyio.move_on_after(QUICK_S):
                    return await self._execute(path, source)
            self._long[path] = source.digest
        async with self._long_slots.one():
            outcome, duration_s = await self._execute(path, source)
        if duration_s < QUICK_S:
            self._long.pop(path, None)
        return outcome, duration_s

    async def _execute(self, path: str, source: Source) -> tuple[Outcome, float]:
        started = anyio.current_time()
        outcome = await self._in_sandbox(path, source)
        return outcome, anyio.current_time() - started

    async def _in_sandbox(self, path: str, source: Source) -> Outcome:
        request = Request(root=str(self._root), filename=str(self._root / path), limits=self._limits)
        with ExitStack() as opened:
            text, result, printed = (_memory(opened, name) for name in ("source", "result", "printed"))
            os.pwrite(text, encode(Script(source.text, source.modules)), 0)
            try:
                reply = await self._zygotes.run(request, text, result, printed)
            except GoneError:
                return Outcome(problem=ImportProblem(reason="its parent process was killed while it ran"), may_pass=True)
            limit = self._limits.output_mb << 20
            return judge(reply, os.pread(result, limit, 0), os.pread(printed, limit, 0), request.filename, self._limits)


@asynccontextmanager
async def open_parser(settings: Settings) -> AsyncIterator[Parser]:
    """Open a parser. Raises UnavailableError if its zygote does not start."""
    async with open_zygotes(os.environ) as zygotes:
        yield Parser(settings, zygotes)


async def parse_all(settings: Settings, paths: Iterable[str]) -> Mapping[str, ParsedFile]:
    """Parse these files of the DAG folder, by path in order. Raises UnavailableError."""
    parsed: dict[str, ParsedFile] = {}

    async def parse(parser: Parser, path: str) -> None:
        parsed[path] = await parser.parse(path)

    async with open_parser(settings) as parser, anyio.create_task_group() as tg:
        for path in paths:
            tg.start_soon(parse, parser, path)
    return dict(sorted(parsed.items()))


def merged(modules: Iterable[ModuleSource]) -> Collection[ModuleSource]:
    """One module of each path: an application may be among the modules of the archive of its DAG file."""
    return {module.path: module for module in modules}.values()


def _memory(opened: ExitStack, name: str) -> int:
    descriptor = os.memfd_create(name)
    opened.callback(os.close, descriptor)
    return descriptor


def judge(reply: Reply, result: bytes, printed: bytes, filename: str, limits: Limits) -> Outcome:
    """The outcome, if the untrusted result is complete and valid; else a problem."""
    if (reason := _ended_badly(reply, limits)) is not None:
        problem = ImportProblem(reason=reason, line=crash_line(printed, filename))
        return Outcome(problem=problem, may_pass=not _used_up_cpu(reply, limits))
    if not result:
        words = f"it ended its process with exit code {reply.status}, as os._exit does; a DAG file only builds DAGs"
        return Outcome(problem=ImportProblem(reason=words))
    try:
        outcome = decode_outcome(result)
        _check(outcome)
    except (msgspec.MsgspecError, DagError, RecursionError, UnicodeDecodeError) as error:
        return Outcome(problem=ImportProblem(reason=printable(f"its DAGs are not valid: {error}")))
    found, uncompiled = _printable_problem(outcome.problem), _printable_problem(outcome.uncompiled)
    dags = () if found is not None or uncompiled is not None else outcome.dags
    return msgspec.structs.replace(outcome, dags=dags, problem=found, uncompiled=uncompiled)


def _printable_problem(problem: ImportProblem | None) -> ImportProblem | None:
    return problem and ImportProblem(reason=printable(problem.reason), line=problem.line)


def crash_line(printed: bytes, filename: str) -> int | None:
    """The line of a crash in C, from the output of faulthandler."""
    found = re.findall(rf'File "{re.escape(filename)}", line (\d+)'.encode(), printed)
    return int(found[0]) if found else None


def printable(text: str) -> str:
    """The text without characters that Postgres or JSON reject."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _ended_badly(reply: Reply, limits: Limits) -> str | None:
    if reply.timed_out:
        return (
            f"it was still running after {limits.wall_s:g} s (TIDEGATE_PARSE_WALL_S) and did not stop; move the work into a task"
        )
    if reply.status >= 0:
        return None
    if _used_up_cpu(reply, limits):
        return f"it used up {limits.cpu_s} s of processor time (TIDEGATE_PARSE_CPU_S) and did not stop; move the work into a task"
    return f"its process was killed by {signal_name(-reply.status)}"


def _used_up_cpu(reply: Reply, limits: Limits) -> bool:
    """Whether the file itself is the cause of the signal. It may be the host: its kernel kills processes for lack of memory."""
    return reply.cpu_s >= limits.cpu_s and -reply.status in (signal.SIGKILL, signal.SIGXCPU)


def _check(outcome: Outcome) -> None:
    """Raises DagError for what the schema does not exclude."""
    if len(outcome.imports) > MAX_IMPORTS or any(_UNPRINTABLE.search(text) for pair in outcome.imports.items() for text in pair):
        raise DagError("its imports are not a list of files")
    seen = set()
    for spec in outcome.dags:
        validate_dag(spec)
        if contains_nul(encode_spec(spec)):
            raise DagError(f"DAG {spec.dag_id!r}: a text contains a NUL character")
        if spec.dag_id in seen:
            raise DagError(f"dag_id {spec.dag_id!r} is used twice")
        seen.add(spec.dag_id)
