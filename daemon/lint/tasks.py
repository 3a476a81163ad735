"""Mistakes in a task: its templates, its files, and its Spark settings."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath

from tidegate.daemon.lint.finding import Mistake
from tidegate.daemon.spark.runner.application_files import LISTS, below, checked_entry
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.submit import conf_problem
from tidegate.daemon.spark.runner.template import mistakes
from tidegate.schemas.dag import BaseTask, CommandTask, ProgramTask, Secret, SqlTask, SubmitTask
from tidegate.schemas.params import ANY_PARAMS, Params
from tidegate.schemas.text import is_template

Named = tuple[str, str]
"""How messages name a text of a task, and the text."""


def mistakes_of(task: BaseTask, folder: Path, params: Params = ANY_PARAMS) -> Iterator[Mistake]:
    """All mistakes. `folder` is the DAG folder, which has the files of the task; `params` are those of its DAG."""
    for what, text in templates(task):
        yield from (Mistake(text, f"{what} {reason}") for reason in mistakes(text, task.upstream, task.over, params))
    for text, check in _checks(task, folder):
        try:
            check()
        except TaskError as error:
            yield Mistake(text, str(error))
        except (OSError, RuntimeError) as error:  # also a loop of links
            yield Mistake(text, f"a file cannot be looked up: {error}")
    if isinstance(task, SubmitTask):
        yield from _in_conf(task.conf)


SHELL_SIGNS = frozenset({"|", "||", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&"})
SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


def doubtful_command(task: BaseTask) -> Iterator[Mistake]:
    """Arguments that only a shell understands, of a command that calls none."""
    if not isinstance(task, CommandTask) or PurePosixPath(task.argv[0]).name in SHELLS:
        return
    program, *arguments = task.argv
    if not is_template(program) and len(program.split()) > 1:
        instead = f'["bash", "-c", {program!r}]' if not arguments else "one argument each"
        yield Mistake(program, f"it calls the program {program!r}, with the spaces: a command has no shell; write {instead}")
    for sign in (argument for argument in arguments if argument in SHELL_SIGNS):
        yield Mistake(sign, f'it gives the program {sign!r} as an argument: a command has no shell; write ["bash", "-c", "…"]')


def templates(task: BaseTask) -> Iterator[Named]:
    match task:
        case SqlTask():
            yield "the SQL", task.sql
        case CommandTask():
            yield from _numbered("argument", task.argv)
            yield "cwd", task.cwd
        case SubmitTask():
            yield from _numbered("argument", task.args)
            yield from _settings("conf", task.conf)
            for what in LISTS:
                yield from _numbered(f"entry of {what}", getattr(task, what))
        case _:
            pass
    if isinstance(task, ProgramTask):
        yield from _settings("env", task.env)


def _numbered(what: str, texts: Iterable[str]) -> Iterator[Named]:
    return ((f"{what} {number}", text) for number, text in enumerate(texts, start=1))


def _settings(what: str, values: Mapping[str, str | Secret]) -> Iterator[Named]:
    return ((f"{what} {name!r}", value) for name, value in values.items() if isinstance(value, str))


def _checks(task: BaseTask, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """The checks of files and packages by the runner, which raise TaskError. The value of a template is known in a run only."""
    if isinstance(task, SubmitTask):
        yield task.application, partial(below, folder, task.application, "application")
        for what in LISTS:
            known = (entry for entry in getattr(task, what) if not is_template(entry))
            yield from ((entry, partial(checked_entry, folder, what, entry)) for entry in known)
    if isinstance(task, CommandTask) and not is_template(task.cwd):
        yield task.cwd, partial(below, folder, task.cwd, "cwd", is_folder=True)


def _in_conf(conf: Mapping[str, str | Secret]) -> Iterator[Mistake]:
    for key, value in conf.items():
        known = value if isinstance(value, str) and not is_template(value) else ""
        if problem := conf_problem(key, known):
            yield Mistake(key, problem)
