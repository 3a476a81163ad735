"""Parses DAG files: reads a file, executes it in a sandbox and validates the result."""

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import anyio

from tidegate.daemon.dagfiles.message import Limits, Outcome, Request
from tidegate.daemon.dagfiles.sandbox import GoneError, Zygotes
from tidegate.daemon.dagfiles.source import RefusedError, Source, can_hold_dags, read
from tidegate.daemon.dagfiles.verdict import judge
from tidegate.daemon.settings import Settings, dags_root
from tidegate.schemas.dag import ImportProblem, ParsedFile

AT_ONCE = 4


class Parser:
    """Parses up to `AT_ONCE` files in parallel, isolated from each other."""

    def __init__(self, settings: Settings, zygotes: Zygotes) -> None:
        self._root = dags_root(settings)
        self._limits = Limits(
            wall_s=settings.parse_wall_s,
            cpu_s=settings.parse_cpu_s,
            memory_mb=settings.parse_memory_mb,
            output_mb=settings.parse_output_mb,
        )
        self._zygotes = zygotes
        self._slots = anyio.Semaphore(AT_ONCE)

    async def parse(self, path: str) -> ParsedFile:
        """Parse the file at `path`, relative to the DAG folder. Errors in the file become its problem.

        Raises UnavailableError when the zygote cannot be started.
        """
        started = anyio.current_time()
        try:
            source = await anyio.to_thread.run_sync(read, self._root, path)
        except RefusedError as error:
            return ParsedFile(path=path, digest=error.digest, problem=ImportProblem(reason=str(error)))
        if source is None:
            return ParsedFile(path=path, digest=None)
        outcome = await self._run(path, source) if can_hold_dags(source) else Outcome()
        return ParsedFile(
            path=path,
            digest=source.digest,
            source=source.text,
            dags=outcome.dags,
            problem=outcome.problem,
            duration_s=anyio.current_time() - started,
        )

    async def _run(self, path: str, source: Source) -> Outcome:
        request = Request(root=str(self._root), filename=str(self._root / path), limits=self._limits)
        async with self._slots:
            with ExitStack() as opened:
                text, result, printed = (_memory(opened, name) for name in ("source", "result", "printed"))
                os.pwrite(text, source.text.encode(), 0)
                try:
                    reply = await self._zygotes.run(request, text, result, printed)
                except GoneError:
                    return Outcome(problem=ImportProblem(reason="its parent process was killed while it ran"))
                limit = self._limits.output_mb << 20
                return judge(reply, os.pread(result, limit, 0), os.pread(printed, limit, 0), request.filename, self._limits)


@asynccontextmanager
async def open_parser(settings: Settings) -> AsyncIterator[Parser]:
    """Open a parser. Raises UnavailableError if its zygote does not start."""
    zygotes = Zygotes(os.environ)
    try:
        await zygotes.current()
        yield Parser(settings, zygotes)
    finally:
        with anyio.CancelScope(shield=True):
            await zygotes.stop()


def _memory(opened: ExitStack, name: str) -> int:
    descriptor = os.memfd_create(name)
    opened.callback(os.close, descriptor)
    return descriptor
