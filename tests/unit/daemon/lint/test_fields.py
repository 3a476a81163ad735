"""Each text of a task is a template that `check` reads, or one of the few others; the runner reads each secret."""

from typing import Any, get_type_hints

import pytest

from tidegate.daemon.lint.tasks import templates
from tidegate.daemon.spark.runner.secrets import names_in
from tidegate.schemas.dag import BaseTask, CommandTask, EmptyTask, FunctionTask, Secret, SqlTask, SubmitTask, TaskSpec

NO_TEMPLATES = {"application", "application_digest", "cluster", "python"}
VALUES: dict[Any, Any] = {
    str: lambda name: f"{{{{ {name} }}}}",
    tuple[str, ...]: lambda name: (f"{{{{ {name} }}}}",),
    dict[str, str | Secret]: lambda name: {"TEXT": f"{{{{ {name} }}}}", "SECRET": Secret(name)},
}
KINDS: list[type[TaskSpec]] = [EmptyTask, FunctionTask, SqlTask, SubmitTask, CommandTask]


def own_fields(kind: type[TaskSpec]) -> dict[str, Any]:
    """The types of the fields that not all tasks have."""
    hints = get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__ if name not in BaseTask.__struct_fields__}


@pytest.mark.parametrize("kind", KINDS)
def test_each_text_is_a_template_and_each_secret_is_read(kind: type[TaskSpec]) -> None:
    fields = own_fields(kind)
    task = kind(task_id="t", **{name: VALUES[type_](name) for name, type_ in fields.items()})

    read = {text.strip("{} ") for _, text in templates(task)}

    assert fields.keys() - read == fields.keys() & NO_TEMPLATES
    assert set(names_in(task)) == {name for name, type_ in fields.items() if type_ == dict[str, str | Secret]}
