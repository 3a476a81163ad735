"""The keys of `dag_run.conf` that a file reads, in its code and in its templates."""

import ast
import re
from collections.abc import Iterator

from tidegate.daemon.airflow_import.bodies import key_of

_IN_TEMPLATE = re.compile(r"""\bdag_run\.conf\b(?:(?:\.get\(|\[)\s*['"](?P<text>[^'"]+)['"]|\.(?P<name>(?!get\b)\w+))?""")


def conf_keys(tree: ast.AST) -> set[str | None]:
    """The keys; None among them if the file also reads one that it computes, or the conf as a whole."""
    read = {id(conf): key for node in ast.walk(tree) for conf, key in _keyed(node)}
    return {*_in_templates(tree), *(read.get(id(node)) for node in ast.walk(tree) if _is_conf(node))}


def _in_templates(tree: ast.AST) -> Iterator[str | None]:
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return (found["text"] or found["name"] for text in texts for found in _IN_TEMPLATE.finditer(text))


def _keyed(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """The conf that an expression reads a key of, and the key."""
    found = key_of(node)
    if found is not None and _is_conf(found[0]):
        yield found


def _is_conf(node: ast.AST) -> bool:
    """Whether an expression is `dag_run.conf`, also of `context["dag_run"]`."""
    if not isinstance(node, ast.Attribute) or node.attr != "conf":
        return False
    found = key_of(node.value)
    return (isinstance(node.value, ast.Name) and node.value.id == "dag_run") or (found is not None and found[1] == "dag_run")
