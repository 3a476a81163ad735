"""The modules of a version: stored once for each content, and given to the runs of that version."""

from collections.abc import Mapping
from hashlib import sha256
from uuid import uuid4

from tests.integration.engine.world import World, utc
from tests.shapes import spec
from tidegate.daemon.duties.submission_specs import submission_specs
from tidegate.handlers.dag_file_changed import ABSENT_SCANS
from tidegate.schemas.dag import FunctionTask, ModuleSource, ParsedFile, SubmitTask
from tidegate.schemas.message import DagDeleteRequested, RunRequested
from tidegate.schemas.queries import files, submissions

WORK = FunctionTask(task_id="work")
OTHER = ModuleSource("lib/other.py", "digest of other", "same")


async def parsed(world: World, text: str, dag_id: str = "d") -> None:
    common = ModuleSource("lib/common.py", f"digest of {text}", text)
    file = ParsedFile(path=f"{dag_id}.py", digest=text, source=text, dags=(spec(WORK, dag_id=dag_id),), modules=(common, OTHER))
    await world.tell(file)


async def begin(world: World, run_id: str, day: int) -> None:
    await world.tell(RunRequested(dag_id="d", run_id=run_id, conf={}, logical_date=utc(2024, 4, day)))
    await world.reconsider()


async def submitted(world: World, backend: str = "spark-connect") -> Mapping[str, tuple[str, list[str]]]:
    """The file and the modules of each run."""
    await world.admit()
    claims = await world.database.run(submissions.claim_intents, uuid4(), "here", backend, 10)
    built = await world.database.run(submission_specs, claims)
    found = [each for each in built if not isinstance(each, Exception)]
    return {each.run.run_id: (each.source, sorted(module.source for module in each.modules)) for each in found}


async def contents(world: World) -> list[str]:
    return [row[0] for row in await world.rows("SELECT source FROM module_source ORDER BY source")]


async def test_a_run_keeps_the_modules_of_its_version(world: World) -> None:
    await parsed(world, "before")
    await begin(world, "r1", 1)
    await parsed(world, "later")
    await begin(world, "r2", 2)

    assert await submitted(world) == {"r1": ("before", ["before", "same"]), "r2": ("later", ["later", "same"])}


async def test_a_run_keeps_the_application_of_its_version(world: World) -> None:
    for number, text in enumerate(("before", "later"), start=1):
        digest = sha256(text.encode()).hexdigest()
        task = SubmitTask(task_id="load", application="load.py", application_digest=digest)
        application = ModuleSource("load.py", digest, text)
        await world.tell(ParsedFile(path="d.py", digest=text, dags=(spec(task),), modules=(application, OTHER)))
        await begin(world, f"r{number}", number)

    assert await submitted(world, "spark-submit") == {"r1": ("", ["before"]), "r2": ("", ["later"])}


async def test_each_content_is_stored_once_while_a_version_has_it(world: World) -> None:
    await parsed(world, "one")
    await parsed(world, "two", "e")
    before = await contents(world)
    for _ in range(ABSENT_SCANS):
        await world.tell(ParsedFile(path="d.py", digest=None))
    await world.tell(DagDeleteRequested(dag_id="d"))

    await world.database.run(files.delete_unused_modules)

    assert (before, await contents(world)) == (["one", "same", "two"], ["same", "two"])
