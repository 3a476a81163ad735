"""Keywords of DAGs and tasks: each is translated, has no effect, or is reported as left out."""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

from tidegate.daemon.airflow_import import templates, vocabulary
from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import call, constant, items, keyword
from tidegate.daemon.airflow_import.mails import with_receivers
from tidegate.daemon.airflow_import.report import LeftOutError, left_out, omission
from tidegate.daemon.airflow_import.unsupported import leave_out_option, unrepeated
from tidegate.daemon.airflow_import.values import duration, moment
from tidegate.schemas.text import is_template

Convert = Callable[[Context, ast.expr], ast.expr]
Options = Sequence[ast.keyword]
Made = tuple[str, list[ast.expr], list[ast.keyword], Options]
"""A method of `Dag`, its arguments after the id, its own keywords, and the options that all tasks have."""


def task_options(context: Context, options: Iterable[ast.keyword], owner: str) -> list[ast.keyword]:
    """The options of a task or of `default_args` in the words of Tidegate; one without any is left out."""
    given = unrepeated(context, options, owner, vocabulary.RENAMED_OPTIONS)
    if {option.arg for option in given} & {"email", "email_on_failure", "email_on_retry"}:
        given = with_receivers(context, given)
    converted = [made for option in given if (made := convert(context, option, owner, task_converter(option.arg)))]
    names = {option.arg for option in converted}
    has_default = context.dag is not None and context.dag.has_retry_delay
    if "retries" in names and "retry_delay" not in names and not has_default:
        # Airflow waits five minutes between two tries, Tidegate one.
        delay = call(context.need("datetime", "timedelta"), [], [keyword("minutes", constant(5))])
        place = next(index for index, option in enumerate(converted) if option.arg == "retries") + 1
        converted.insert(place, keyword("retry_delay", delay))
    return converted


def convert(context: Context, option: ast.keyword, owner: str, converter: tuple[str, Convert] | None) -> ast.keyword | None:
    """One keyword. It is left out if it has no converter, or its value no equivalent."""
    if option.arg is not None and has_no_effect(option):
        return None
    if option.arg in vocabulary.RECEIVERS and isinstance(option.value, ast.Call) and _is_mail(option.value):
        return option
    if converter is None:
        leave_out_option(context, option, owner)
        return None
    try:
        return keyword(converter[0], converter[1](context, option.value))
    except LeftOutError as left:
        what, why = f"{option.arg}= of {owner}", f"{left.omission.what}: {left.omission.why}"
        context.leave_out(omission(option.value, what, why, left.omission.instead))
        return None


def own_options(
    context: Context, options: Options, owner: str, known: Mapping[str, tuple[str, Convert]]
) -> tuple[list[ast.keyword], list[ast.keyword]]:
    """The options that only tasks of a kind have, in the words of Tidegate, and the other options."""
    converted = (convert(context, option, owner, known[str(option.arg)]) for option in options if option.arg in known)
    return [option for option in converted if option is not None], [option for option in options if option.arg not in known]


def _is_mail(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name | ast.Attribute) and ast.unparse(node.func).endswith("Email")


def has_no_effect(option: ast.keyword) -> bool:
    if option.arg in vocabulary.NONE_IS_DEFAULT and isinstance(option.value, ast.Constant) and option.value.value is None:
        return True
    values = vocabulary.WITHOUT_EFFECT.get(option.arg or "", frozenset())
    return isinstance(option.value, ast.Constant) and option.value.value in values


def task_converter(option: str | None) -> tuple[str, Convert] | None:
    """How an option of tasks is called, and how its value is translated; None if it has no equivalent."""
    renamed = vocabulary.RENAMED_OPTIONS.get(option or "", option or "")
    if renamed in vocabulary.SAME_TASK_OPTIONS:
        return renamed, Context.translate
    if renamed in vocabulary.DURATION_OPTIONS:
        return renamed, duration
    if renamed in vocabulary.MOMENT_OPTIONS:
        return renamed, moment
    return (renamed, _SPECIAL[renamed]) if renamed in _SPECIAL else None


def rule(names: Mapping[str, str], kind: str) -> Convert:
    """A converter of a rule, written as a string or as a member of Airflow's enumeration."""

    def convert_rule(context: Context, node: ast.expr) -> ast.expr:
        airflow = context.airflow_name(node) or ""
        named = node.value if isinstance(node, ast.Constant) else airflow.rpartition(".")[2].lower()
        if isinstance(node, ast.Constant | ast.Attribute) and str(named) in names:
            return constant(names[str(named)])
        raise left_out(node, f"there is no such {kind}", "see schemas/docs/writing-dags.md for the rules there are")

    return convert_rule


def outlets(context: Context, node: ast.expr) -> ast.expr:
    """A list of datasets."""
    translated = context.translate(node)
    return translated if isinstance(translated, ast.List | ast.Tuple | ast.ListComp) else items(translated)


def backoff(context: Context, node: ast.expr) -> ast.expr:
    """Airflow 2 says whether the delay doubles, Tidegate by which factor it grows."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return constant(2 if node.value else 1)
    return context.translate(node)


def take(options: Options, *names: str) -> tuple[ast.expr | None, list[ast.keyword]]:
    """The value of the first of some keywords, and the other keywords."""
    found = [option.value for wanted in names for option in options if option.arg == wanted]
    return (found[0] if found else None), [option for option in options if option.arg not in names]


def template(context: Context, node: ast.expr) -> ast.expr:
    """An expression whose strings are templates. Raises LeftOutError for one that no run could render, with all reasons."""
    with context.reading("template"):
        translated = _with_results(context, context.translate(node))
    for text in ast.walk(translated):
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and is_template(text.value):
            for key in templates.variables(text.value):
                context.leave_out(omission(node, f"Variable {key}", *vocabulary.parameter_hint(key)))
            text.value = templates.translated(text.value)
            if problems := ", ".join(templates.problems(text.value)):
                what = f"template {text.value}"
                raise left_out(node, problems, "write a name of the table in schemas/docs/writing-dags.md", what)
    return translated


def _with_results(context: Context, node: ast.expr) -> ast.expr:
    """Tasks in a text are templates of their results."""
    visited: ast.expr = _ResultsAsTemplates(context).visit(node)
    return visited


class _ResultsAsTemplates(ast.NodeTransformer):
    def __init__(self, context: Context) -> None:
        self.context = context

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        visited = self.visit(node.value)
        return visited if visited is not node.value else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """A part of a result."""
        visited = self.visit(node.value)
        text = visited.value if isinstance(visited, ast.Constant) and visited is not node.value else None
        if isinstance(text, str) and isinstance(node.slice, ast.Constant) and text.endswith(" }}"):
            return constant(f"{text.removesuffix(' }}')}[{node.slice.value!r}] }}}}")
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        task = self.context.tasks.get(node.id)
        if task is None or node.id in self.context.stale:
            return self._held(node)
        if not isinstance(task.task_id, ast.Constant):
            raise left_out(node, "the file does not say the id of the task", "write {{ results['…'] }} with its id")
        return constant(f"{{{{ results['{task.task_id.value!s}'] }}}}")

    def _held(self, node: ast.Name) -> ast.expr:
        """A variable whose text has words of Airflow in a template: the text is written at its place."""
        held = self.context.facts.constants.get(node.id)
        if held is None or not _has_words(self.context, held, (node.id,)):
            return node
        return _with_results(self.context, self.context.translate(held))


def _has_words(context: Context, node: ast.expr, above: tuple[str, ...]) -> bool:
    """Whether a text, or one that it is made of, has a template with words that are not those of Tidegate."""
    if not isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
        return False
    parts = list(ast.walk(node))
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    if any(is_template(text) and (templates.translated(text) != text or any(templates.problems(text))) for text in texts):
        return True
    names = {part.id for part in parts if isinstance(part, ast.Name)} - {*above}
    held = ((name, context.facts.constants.get(name)) for name in names)
    return any(value is not None and _has_words(context, value, (*above, name)) for name, value in held)


def interpreter(context: Context, node: ast.expr) -> ast.expr:
    """The absolute path of a Python environment's interpreter, or the name of a variable with it."""
    if isinstance(node, ast.Name):
        return context.translate(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/"):
        return node
    raise left_out(node, "an interpreter is the text of an absolute path", "write the path on the hosts that run the task")


_SPECIAL: Mapping[str, Convert] = {
    "trigger_rule": rule(vocabulary.TRIGGER_RULES, "trigger rule"),
    "weight_rule": rule(vocabulary.WEIGHT_RULES, "weight rule"),
    "retry_exponential_backoff": backoff,
    "outlets": outlets,
    "python": interpreter,
}
