"""Leaves out keywords and arguments that have no equivalent: each is an entry of the report."""

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence

from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.report import omission, shown
from tidegate.daemon.airflow_import.vocabulary import OPTION_HINTS, UNKNOWN_OPTION


def leave_out_option(context: Context, option: ast.keyword, owner: str) -> None:
    if option.arg is None:
        context.leave_out(
            omission(
                option.value,
                f"**{shown(option.value)} of {owner}",
                "the file does not say which keywords it holds",
                "write the keywords",
            )
        )
        return
    why, instead = OPTION_HINTS.get(option.arg, UNKNOWN_OPTION)
    context.leave_out(omission(option.value, f"{option.arg}= of {owner}", why, instead))


def unrepeated(context: Context, options: Iterable[ast.keyword], owner: str, renamed: Mapping[str, str]) -> list[ast.keyword]:
    """The options without those of an old name whose new name is also given: the last ones are left out."""
    kept: dict[str, ast.keyword] = {}
    for option in options:
        new_name = renamed.get(option.arg or "", option.arg or ast.unparse(option.value))
        if new_name in kept:
            context.leave_out(omission(option.value, f"{option.arg}= of {owner}", f"{new_name} is given twice", "write it once"))
        kept.setdefault(new_name, option)
    return list(kept.values())


def leave_out_positional(context: Context, args: Sequence[ast.expr], owner: str) -> None:
    """Leave out arguments whose position has no meaning here."""
    for arg in args:
        context.leave_out(omission(arg, f"argument {shown(arg)} of {owner}", "it has no name", "write it as a keyword"))


def leave_out_arguments(context: Context, node: ast.Call, owner: str, *, after: int = 0, known: Collection[str] = ()) -> None:
    """Leave out the arguments of a call from a position on, and its keywords but for the known ones."""
    leave_out_positional(context, node.args[after:], owner)
    for option in node.keywords:
        if option.arg not in known:
            leave_out_option(context, option, owner)
