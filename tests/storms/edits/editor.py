"""A user who edits many DAG files at once, breaks, deletes and restores them, and writes each in another way."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from random import Random

import anyio
import asyncpg
import msgspec

from tests.storms import quiescence
from tests.storms.meddler import Note
from tests.storms.pipelines import INPUTS

RESTORED_S = 90.0
KINDS = ("edit", "comment", "break", "delete", "restore", "former")
WEIGHTS = (8, 2, 2, 2, 3, 2)

BROKEN = "from tidegate import Dag\nwith Dag(\n"

KNOWN = """
    SELECT dag.path, spec ->> 'description' FROM dag JOIN dag_version AS version ON version.id = version_id WHERE NOT is_stale
"""


class Editing(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of `edits` and of `files`; all edits come within `within_s`."""

    files: int
    edits: int
    within_s: float


def name_of(number: int) -> str:
    return f"edited_{number:03}"


def is_quiet(number: int) -> bool:
    """Whether nothing ever happens that its DAG waits for: half of them."""
    return number % 2 == 1


def content(number: int, edition: int, remark: int = 0) -> str:
    """A DAG file whose meaning is its edition. DAGs of quiet files wait for datasets without events, or for a distant time."""
    name = name_of(number)
    schedule = f'Dataset("storm://in/{number % INPUTS}")'
    if is_quiet(number):
        schedule = '"0 0 29 2 *"' if number % 4 == 1 else f'Dataset("storm://quiet/{number}")'
    return (
        f"# remark {remark}\nfrom tidegate import Dag, Dataset\n\n"
        f'with Dag("{name}", schedule={schedule}, description="{edition}", max_active_runs={1 + edition % 3}) as dag:\n'
        f'    dag.empty("only")\n'
    )


def files(count: int) -> Mapping[str, str]:
    return {f"{name_of(number)}.py": content(number, 0) for number in range(count)}


class Editor:
    """`editions` are the editions that each file ever had; `done` counts the edits by kind."""

    def __init__(self, random: Random, folder: Path, dsn: str, note: Note) -> None:
        self.editions: dict[int, list[int]] = defaultdict(lambda: [0])
        self.done: Counter[str] = Counter()
        self._random = random
        self._folder = folder
        self._dsn = dsn
        self._note = note

    async def edit(self, editing: Editing) -> None:
        """Return when all is done."""
        begin = anyio.current_time()
        for number in range(editing.edits):
            await anyio.sleep_until(begin + editing.within_s * number / editing.edits)
            (kind,) = self._random.choices(KINDS, WEIGHTS)
            self.done[kind] += 1
            await self._act(kind, self._random.randrange(editing.files))

    async def _act(self, kind: str, number: int) -> None:
        editions, path = self.editions[number], self._folder / f"{name_of(number)}.py"
        match kind:
            case "delete":
                path.unlink(missing_ok=True)
            case "break":
                await self._write(path, BROKEN)
            case "edit":
                editions.append(len(editions))
                await self._write(path, content(number, editions[-1]))
            case "former":
                editions.append(self._random.choice(editions))
                await self._write(path, content(number, editions[-1]))
            case _:
                await self._write(path, content(number, editions[-1], self.done[kind]))

    async def _write(self, path: Path, text: str) -> None:
        """By a rename, in place, or in two halves."""
        match self._random.randrange(3):
            case 0:
                draft = path.with_suffix(".py~")
                draft.write_text(text)
                draft.replace(path)
            case 1:
                path.write_text(text)
            case _:
                with path.open("w") as file:
                    file.write(text[: len(text) // 2])
                    file.flush()
                    await anyio.sleep(self._random.uniform(0, 0.1))
                    file.write(text[len(text) // 2 :])

    async def restore(self, count: int) -> None:
        """Return when every file is whole and the daemons know it as it is. Raises TimeoutError."""
        self._note("write all edited files once more")
        for number in range(count):
            (self._folder / f"{name_of(number)}.py").write_text(content(number, self.editions[number][-1]))
        await quiescence.until(lambda: self._are_known(count), RESTORED_S)

    async def _are_known(self, count: int) -> bool:
        db = await asyncpg.connect(self._dsn)
        try:
            known = {(row[0], row[1]) for row in await db.fetch(KNOWN)}
            has_errors = await db.fetchval("SELECT EXISTS (SELECT FROM import_error)")
        finally:
            await db.close()
        wanted = {(f"{name_of(number)}.py", f"{self.editions[number][-1]}") for number in range(count)}
        return wanted <= known and not has_errors
