"""The examples of the documentation that need servers: walkthroughs, clients of events, SQL."""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from aiokafka import AIOKafkaProducer

from tests.acceptance.command import Ended
from tests.acceptance.running_daemon import RunningDaemon, Start
from tests.documents import ROOT, Block, Step, blocks, calls, has_output, steps
from tidegate.events import topics
from tidegate.schemas.wire.event import Kind

WITHIN_S = 60.0
BROKER = '"localhost:9092"'
FIRST_DAG = ROOT / "README.md"

VARIABLE = (
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "TIME"),
    (r"TIME_[0-9a-f]{16}", "RUN"),
    (r"(?m)^\d+(?= )", "EVENT"),
    (r"\b(\d+m)?\d+(\.\d+)?s\b", "DURATION"),
    (r"\S+ \(pid \d+\)", "DAEMON"),
    (r"\S+\.py\b", "FILE"),
)
"""Parts of outputs that differ each time, with what they are compared as."""


def walkthroughs() -> Mapping[Path, list[Block]]:
    """Pages whose console blocks show outputs, and the first DAG: their DAG files and commands, in order."""
    found = defaultdict(list)
    for block in blocks("python", "console"):
        found[block.page].append(block)
    return {page: own for page, own in found.items() if page == FIRST_DAG or any(map(has_output, own))}


@pytest.mark.parametrize("page", walkthroughs(), ids=lambda page: page.stem)
async def test_walkthroughs_work_and_print_what_they_show(page: Path, start: Start, spark_connect: str, tmp_path: Path) -> None:
    (tmp_path / ".tidegate").mkdir()
    (tmp_path / ".tidegate/dags").symlink_to(tmp_path / "dags")

    async with start(spark_remote=spark_connect) as daemon:
        for block in walkthroughs()[page]:
            if block.language == "python":
                await _deploy(daemon, block)
            for step in steps(block) if block.language == "console" else ():
                await _play(daemon, step)
        await daemon.until(lambda: _has_succeeded(daemon))


@pytest.mark.parametrize("block", [block for block in blocks("python") if BROKER in block.text], ids=str)
async def test_clients_of_events_work(block: Block, kafka: str, topic_prefix: str) -> None:
    """A client that follows events runs until it prints the first one."""
    await topics.create(kafka, topic_prefix, 1, 1)
    code = compile(
        block.text.replace(BROKER, f'"{kafka}", topic_prefix="{topic_prefix}"'),
        str(block),
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )
    printed = anyio.Event()

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tg:
            tg.start_soon(_publish_states, kafka, topic_prefix, printed)
            tg.start_soon(_run, code, printed)


@pytest.mark.parametrize("block", blocks("sql"), ids=str)
async def test_statements_are_valid(block: Block, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.prepare(block.text)
    await connection.close()


async def _deploy(daemon: RunningDaemon, block: Block) -> None:
    match = re.search(r'Dag\("(\w+)"', block.text)
    assert match
    (daemon.dags / f"{match[1]}.py").write_text(block.text)
    await daemon.until(lambda: daemon.knows(match[1]))


async def _play(daemon: RunningDaemon, step: Step) -> None:
    """A command that reads is repeated until it prints what is shown; `publish` is called once.

    `eval` takes settings over, which the daemon of the test has.
    """
    for args in () if step.command.startswith("eval ") else calls(step.command, "tidegate"):
        answer = await daemon.call(*args)
        with anyio.move_on_after(WITHIN_S):
            while "publish" not in args and not _is_shown(answer, step):
                await anyio.sleep(0.5)
                answer = await daemon.call(*args)
        assert _is_shown(answer, step), f"$ {step.command}\n{answer.out}{answer.err}"


def _is_shown(answer: Ended, step: Step) -> bool:
    return answer.code == 0 and (not step.output or _is_like(answer.out, step.output))


async def _has_succeeded(daemon: RunningDaemon) -> bool:
    return await daemon.holds("SELECT array_agg(state::text) = '{success}' FROM dag_run")


async def _publish_states(broker: str, prefix: str, printed: anyio.Event) -> None:
    """Publish the state events of the pages again and again: a subscriber sees only those after its start."""
    async with AIOKafkaProducer(bootstrap_servers=broker) as producer:
        while not printed.is_set():
            for block in blocks("json"):
                kind = Kind(block.info.split()[1])
                if kind in (Kind.DAG_RUN_STATE, Kind.TASK_STATE):
                    await producer.send_and_wait(topics.name(prefix, kind), block.text.encode(), key=b"k")
            await anyio.sleep(0.5)


async def _run(code: Any, printed: anyio.Event) -> None:
    """Run a client until it ends or prints."""
    with anyio.CancelScope() as scope:
        names: dict[str, Any] = {"print": lambda *_: scope.cancel()}
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, names)  # noqa: S307 - an example of ours
        else:
            await anyio.to_thread.run_sync(exec, code, names)
    printed.set()


def _is_like(printed: str, shown: str) -> bool:
    """Whether an output is that of the page but for times, ids and the widths of columns; `...` stands for further lines."""
    lines, wanted = _comparable(printed), _comparable(shown)
    if wanted[-1:] == [["..."]]:
        wanted.pop()
        lines = lines[: len(wanted)]
    return lines == wanted


def _comparable(output: str) -> list[list[str]]:
    for pattern, name in VARIABLE:
        output = re.sub(pattern, name, output)
    return [re.split(r" {2,}", line.strip()) for line in output.splitlines() if line.strip()]
