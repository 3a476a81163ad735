"""`tidegate standalone`: real servers, the daemon and the example pipelines on one machine, with one command."""

import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import NoReturn, TypeVar

import anyio
import msgspec
import uvloop
from rich.console import Console
from rich.live import Live

from tidegate.daemon.identity import credentials
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.permissions import Caller, Role
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.restart import first_of
from tidegate.daemon.settings import Settings, dags_root, environment
from tidegate.daemon.standalone.daemon import environment_of
from tidegate.daemon.standalone.example import producer, report
from tidegate.daemon.standalone.example.nycflights import FIRST
from tidegate.daemon.standalone.example.pipelines import install
from tidegate.daemon.standalone.handed_on import to_clients_of_kafka
from tidegate.daemon.standalone.process import Child, ServerError, spawn
from tidegate.daemon.standalone.progress import BrokenFiles, Lines, Runs, table
from tidegate.daemon.standalone.record import untold, untold_line
from tidegate.daemon.standalone.server import exclusive
from tidegate.daemon.standalone.stack import Stack, create_folder, obstacle, own_dags, stack
from tidegate.daemon.terminal import lossy
from tidegate.schemas.error import TidegateError, UnavailableError
from tidegate.schemas.queries import dag_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RunState

POLL_S = 0.3
EXAMPLE_DAGS = frozenset({"daily_delays", "rolling_report"})
ELSEWHERE = "the example runs with another --data, without TIDEGATE_DAGS_FOLDER"

T = TypeVar("T")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line. `days` of flights arrive, one every `pace_s`; all runs must end within `within_s`."""

    data: Path
    once: bool = False
    example: bool = True
    days: int = 7
    pace_s: float = 1.0
    within_s: float = 1200.0


def main(options: Options, given: Settings) -> int:
    """The exit code: 0 after a signal or, with `once`, when all runs of the example succeeded.

    `given` may name a Postgres and a Kafka to use. Raises TidegateError for a problem that the user can fix.
    """
    return anyio.run(partial(run, options, given), backend_options={"loop_factory": uvloop.new_event_loop})


async def run(options: Options, given: Settings) -> int:
    """Run all servers; they are stopped before it returns or raises."""
    console = Console(file=lossy(sys.stdout))
    code, home = 0, options.data.absolute()
    with exclusive(home, "choose another --data"):
        prepare_example(options, home, dags_root(given))
        async with anyio.create_task_group() as tg:
            with anyio.CancelScope() as serving:
                tg.start_soon(_stop_on_signal, serving, console)
                async with stack(home, given, partial(console.print, style="dim", soft_wrap=True, markup=False)) as running:
                    code = await _kept_up(options, running, given, console)
            tg.cancel_scope.cancel()
    text = f"all servers have stopped; the data stay in {home}, and the next start goes on with them"
    console.print(text, soft_wrap=True, markup=False)
    return code


def prepare_example(options: Options, home: Path, dags: Path) -> None:
    """Install the example into the DAG folder of the standalone. Raises ServerError if `once` would run nothing."""
    if not options.example:
        return
    if dags == own_dags(home):
        create_folder(dags)
        install(home, dags)
    if options.once and (reason := obstacle(home, dags)):
        raise ServerError(f"--once stops after the example, which cannot run, because {reason}; {ELSEWHERE}")


async def _stop_on_signal(serving: anyio.CancelScope, console: Console) -> None:
    """The signals after the first one change nothing: what ends in good order leaves nothing behind."""
    with anyio.open_signal_receiver(*_stop_signals()) as signals:
        async for received in signals:
            again = serving.cancel_called
            serving.cancel()
            console.print("still stopping" if again else f"{received.name}: stopping everything", style="dim")


def _stop_signals() -> list[signal.Signals]:
    """With SIGHUP, which ends a terminal, unless `nohup` ignores it."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, *([] if ignored else [signal.SIGHUP])]


async def _kept_up(options: Options, running: Stack, given: Settings, console: Console) -> int:
    """Serve, and start servers again that die."""
    async with anyio.create_task_group() as tg:
        for server in running.servers:
            tg.start_soon(running.keeper.keep, server)
        tg.start_soon(running.keeper.keep_record)
        async with connect(running.settings["postgres_dsn"]) as database:
            link = await login_link(running.web.address, database, given)
            again = f"`tidegate standalone link{_of_data(running.home)}` prints another link"
            console.print(f"web page: {link} (once, within 15 minutes; {again})", soft_wrap=True)
            _print_addresses(running, console)
            if options.example and (reason := running.obstacle):
                console.print(f"the example does not run, because {reason}; {ELSEWHERE}", soft_wrap=True, markup=False)
            running.keeper.announce(running.settings, running.web.address)
            tg.start_soon(_print_broken, database, console)
            code = await _serve(options, running, given, database, console)
        tg.cancel_scope.cancel()
    return code


def _of_data(home: Path) -> str:
    return f" --data {quote(str(home))}"


async def login_link(web: str, database: Database, given: Settings) -> str:
    """An address of the web page at `web` that logs its first visitor in."""
    user = current_user(given)
    link = await database.run(credentials.issue, "link", Caller(user, Role.ADMIN), credentials.LINK_S, user)
    return f"{web}/login?link={link.secret}"


async def another_link(web: str, given: Settings) -> str:
    """A further link, made by a command."""
    async with connect(given.postgres_dsn) as database:
        return await login_link(web, database, given)


def _print_addresses(running: Stack, console: Console) -> None:
    """The lines that another shell needs, before the example begins."""
    console.print(f"DAG files: {running.settings['dags_folder']}", soft_wrap=True, highlight=False, markup=False)
    console.print(
        f"for commands in another shell, `eval $(tidegate standalone env{_of_data(running.home)})` or:",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    for name, value in environment(running.told).items():
        console.print(f"  export {name}={quote(value)}", soft_wrap=True, highlight=False, markup=False)
    for name in untold(running.settings):
        console.print(f"  ({untold_line(name)})", soft_wrap=True, highlight=False, markup=False)


async def _serve(options: Options, running: Stack, given: Settings, database: Database, console: Console) -> int:
    has_example, code = options.example and not running.obstacle, 0
    try:
        code = await _week(options, running, given, database, console) if has_example else 0
    except* (TidegateError, OSError) as errors:
        if options.once:
            raise
        console.print(f"the example ends: {first_of(errors)}", style="red", soft_wrap=True, markup=False)
    if not options.once:
        console.print("serving; a line follows for each run that ends; Ctrl-C stops everything")
        await _print_ends(database, console, Runs(tasks=False))
    return code


async def _week(options: Options, running: Stack, given: Settings, database: Database, console: Console) -> int:
    """Run the example: days arrive, pipelines run, a table shows the result."""
    with anyio.move_on_after(options.within_s) as limit:
        await _until_loaded(database, console)
        child = await _produce(options, running, given)
        async with anyio.create_task_group() as tg:
            tg.start_soon(_show, database, console)
            await _until_done(running, child, database, options.days)
            tg.cancel_scope.cancel()
    failed = [run for run in await _read(database, _example_runs) if run.state == RunState.FAILED]
    for run in failed:
        console.print(
            f"{run.dag_id} failed; `tidegate runs show {run.dag_id} {run.run_id}` says why",
            style="red",
            soft_wrap=True,
            markup=False,
        )
    if limit.cancelled_caught:
        console.print(f"[red]the week did not end within {options.within_s:g} s[/]")
    else:
        console.print(report.table(running.lake))
    return 1 if failed or limit.cancelled_caught else 0


async def _until_loaded(database: Database, console: Console) -> None:
    """Wait for the DAGs: a DAG consumes only the events after its creation."""

    async def loaded() -> bool:
        return {dag.dag_id for dag in await _read(database, dag_pages.list_dags)} >= EXAMPLE_DAGS

    await _until(loaded)
    console.print("the example's DAGs are loaded", style="dim")


async def _produce(options: Options, running: Stack, given: Settings) -> Child:
    """Of the settings it gets only how to log in to Kafka."""
    command = producer.command(
        running.lake,
        running.settings["kafka_servers"],
        days=options.days,
        pace_s=options.pace_s,
        topic_prefix=running.settings["topic_prefix"],
    )
    log = running.home / "producer.log"
    env = environment_of(to_clients_of_kafka(given))
    return await spawn(command, log=log, cwd=running.home, env=env, on_orphaned=signal.SIGTERM)


async def _until_done(running: Stack, child: Child, database: Database, days: int) -> None:
    """Return when the report has all days and all runs of the example ended. Raises ServerError when the producer failed."""
    if await child.process.wait() != 0:
        raise ServerError(f"the producer of the example failed:\n{child.tail()}")
    week = producer.span(FIRST, days)

    async def done() -> bool:
        listed = await _read(database, _example_runs)
        if any(run.state in {RunState.QUEUED, RunState.RUNNING} for run in listed):
            return False
        return any(run.state == RunState.FAILED for run in listed) or report.week_is_done(running.lake, week)

    await _until(done)


async def _read(database: Database, work: Callable[[Db], Awaitable[T]]) -> T:
    """The result of a query, also while Postgres starts again."""
    while True:
        with suppress(UnavailableError):
            return await database.run(work)
        await anyio.sleep(POLL_S)


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Poll until the condition holds."""
    while True:
        if await holds():
            return
        await anyio.sleep(POLL_S)


async def _example_runs(db: Db) -> list[RunRow]:
    """Other DAGs are the user's: their runs may wait for ever, or fail."""
    return [shown.run for shown in await Runs(EXAMPLE_DAGS).read(db)]


async def _show(database: Database, console: Console) -> None:
    """On a terminal a table that changes, elsewhere a line for each end of a task and a run, also of the DAGs of the user."""
    if not console.is_terminal:
        await _print_ends(database, console, Runs())
    runs = Runs()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(table(await _read(database, runs.read), datetime.now(UTC)), refresh=True)
            await anyio.sleep(POLL_S)


async def _print_ends(database: Database, console: Console, runs: Runs) -> NoReturn:
    lines = Lines(await _read(database, runs.read), partial(datetime.now, UTC))
    while True:
        await anyio.sleep(POLL_S)
        for text in lines.new(await _read(database, runs.read)):
            console.print(text, highlight=False, soft_wrap=True, markup=False)


async def _print_broken(database: Database, console: Console) -> NoReturn:
    """A file that is broken at the start has a line, too: the daemon may know it, and not parse it again."""
    broken = BrokenFiles()
    while True:
        for text in broken.new(await _read(database, dag_pages.list_import_errors)):
            console.print(text, style="red", highlight=False, soft_wrap=True, markup=False)
        await anyio.sleep(POLL_S)
