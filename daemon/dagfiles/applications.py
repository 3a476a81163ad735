"""The applications that the tasks of a DAG submit: files in Python below the DAG folder, which are part of its version."""

from collections.abc import Iterable, Mapping

import msgspec

from tidegate.schemas.dag import BaseTask, DagSpec, ModuleSource, SubmitTask


def application_paths(dags: Iterable[DagSpec]) -> set[str]:
    """The paths of all applications in Python. A path that leads out of the folder is refused where it is read."""
    return {path for spec in dags for task in spec.tasks if (path := _path(task)) is not None}


def with_digests(spec: DagSpec, modules: Iterable[ModuleSource]) -> DagSpec:
    """The DAG with the digests of its applications that were read: another content makes another version."""
    digests = {module.path: module.digest for module in modules}
    tasks = tuple(_with_digest(task, digests) if isinstance(task, SubmitTask) else task for task in spec.tasks)
    return spec if tasks == spec.tasks else msgspec.structs.replace(spec, tasks=tasks)


def _with_digest(task: SubmitTask, digests: Mapping[str, str]) -> SubmitTask:
    return msgspec.structs.replace(task, application_digest=digests.get(_path(task) or "", ""))


def _path(task: BaseTask) -> str | None:
    """The path as in the imports of a file, without its empty parts; None for a task without an application in Python."""
    if not isinstance(task, SubmitTask) or not task.application.endswith(".py"):
        return None
    return task.application_path
