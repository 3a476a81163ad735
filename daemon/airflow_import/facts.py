"""What a file says of itself as a whole, before its statements are translated."""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator

import msgspec

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ImportNode = ast.ImportFrom | ast.Import
_WITH_OWN_NAMES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Facts(msgspec.Struct, frozen=True):
    """`constants`: the values of variables that the file sets once. `uses` counts how often a name occurs.

    `default_args` and `task_functions` are the names that the file passes as such. `only_dag`: the variable of its only DAG.
    `stores` counts where a name gets a value; the `changing` ones can have another one when a task runs.
    `adopted`: by variable, that of the DAG which a task gets by its order.
    `of_both`: an import that leaves open whether the file is one of Airflow 2 or 3.
    """

    constants: dict[str, ast.expr]
    functions: dict[str, FunctionNode]
    uses: Counter[str]
    default_args: set[str]
    task_functions: set[str]
    only_dag: str | None
    stores: Counter[str]
    changing: set[str]
    is_airflow3: bool
    of_both: ast.stmt | None
    adopted: dict[str, str]


def facts_of(tree: ast.Module, default_args: Collection[str] = ()) -> Facts:
    """`default_args`: variables that other files pass as such."""
    task_functions = _keyword_names(tree, "python_callable") | _decorated_functions(tree)
    stored = list(stored_names(tree, task_functions))
    stores = Counter(name for name, _ in stored)
    return Facts(
        constants=_constants(tree),
        functions={node.name: node for node in ast.walk(tree) if isinstance(node, FunctionNode)},
        uses=Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)),
        default_args=_keyword_names(tree, "default_args") | set(default_args),
        task_functions=task_functions,
        only_dag=_only_dag(tree),
        stores=stores,
        changing={name for name, again in stored if again or stores[name] > 1},
        is_airflow3=any(_is_airflow3(node) for node in _imports(tree)),
        of_both=_of_both(tree),
        adopted=_adopted(tree),
    )


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """The values of variables that the file sets once."""
    counts = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    named = (pair for node in assigned for target in node.targets for pair in _assigned(target, node.value))
    return {name: value for name, value in named if counts[name] == 1}


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The variables that an assignment sets, each with its own value."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, own in zip(target.elts, value.elts, strict=True):
            yield from _assigned(part, own)


def stored_names(tree: ast.AST, task_functions: set[str], *, again: bool = False) -> Iterator[tuple[str, bool]]:
    """The variables and functions below a node, but for those in tasks; and whether the place can be passed more than once."""
    for child in ast.iter_child_nodes(tree):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield child.name, False
            case ast.Name(ctx=ast.Store()):
                yield child.id, again
            case ast.arg():
                yield child.arg, True
            case _:
                pass
        inside = isinstance(child, FunctionNode) and child.name in task_functions
        if not inside and not isinstance(child, _WITH_OWN_NAMES):
            repeated = again or isinstance(child, ast.For | ast.While | FunctionNode)
            yield from stored_names(child, task_functions, again=repeated)


def _keyword_names(tree: ast.Module, option: str) -> set[str]:
    """The variables that are the value of a keyword somewhere in the file."""
    keywords = (node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == option)
    return {node.value.id for node in keywords if isinstance(node.value, ast.Name)}


def _only_dag(tree: ast.Module) -> str | None:
    """The variable of the DAG that functions of the file add tasks to, if there is only one."""
    found = list(_outside_functions(tree))
    blocks = [
        item.optional_vars for node in found if isinstance(node, ast.With) for item in node.items if _makes_dag(item.context_expr)
    ]
    assigned = [node.targets[0] for node in found if isinstance(node, ast.Assign) and _makes_dag(node.value)]
    names = [target.id for target in [*blocks, *assigned] if isinstance(target, ast.Name)]
    return names[0] if len(names) == 1 else None


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, FunctionNode):
            yield child
            yield from _outside_functions(child)


def _adopted(tree: ast.Module) -> dict[str, str]:
    """As in Airflow, a task without a DAG gets that of a task which it is linked with, or of `dag >> task`."""
    dags = {name for name, _ in _dag_blocks(tree)}
    together: dict[str, set[str]] = {}
    for names in (*_linked_names(tree), *_given_dags(tree), *({dag, *inside} for dag, inside in _dag_blocks(tree))):
        joined = set().union(names, *(together.get(name, set()) for name in names))
        together.update(dict.fromkeys(joined, joined))
    found = {name: joined & dags for name, joined in together.items()}
    return {name: next(iter(of)) for name, of in found.items() if len(of) == 1}


def _dag_blocks(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """The variables of DAGs, each with the variables that its block sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _makes_dag(node.value):
            yield node.targets[0].id, set()
        elif (
            isinstance(node, ast.With)
            and _makes_dag(node.items[0].context_expr)
            and isinstance(node.items[0].optional_vars, ast.Name)
        ):
            yield node.items[0].optional_vars.id, {name for name, _ in stored_names(node, set())}


def _linked_names(tree: ast.Module) -> Iterator[set[str]]:
    """The variables of each statement that says an order, or makes a collection."""
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        collection = (
            isinstance(node, ast.Assign) and isinstance(value, ast.List | ast.Tuple) and isinstance(node.targets[0], ast.Name)
        )
        linked = isinstance(value, ast.BinOp) and isinstance(value.op, ast.RShift | ast.LShift)
        if collection or linked or (isinstance(value, ast.Call) and _ORDER.search(ast.unparse(value.func))):
            yield {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


_ORDER = re.compile(r"\b(set_upstream|set_downstream|chain|cross_downstream)$")


def _given_dags(tree: ast.Module) -> Iterator[set[str]]:
    """Tasks with `dag=`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            given = [option.value for option in node.value.keywords if option.arg == "dag"]
            yield {node.targets[0].id, *(value.id for value in given if isinstance(value, ast.Name))}


def _makes_dag(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return (isinstance(called, ast.Name) and called.id == "DAG") or (isinstance(called, ast.Attribute) and called.attr == "DAG")


def _decorated_functions(tree: ast.Module) -> set[str]:
    """Functions with a decorator that begins with `task`, `setup` or `teardown`."""
    functions = [node for node in ast.walk(tree) if isinstance(node, FunctionNode)]
    decorators = ((node.name, ast.unparse(decorator)) for node in functions for decorator in node.decorator_list)
    return {name for name, text in decorators if re.match(r"(task|setup|teardown)\b", text)}


def _is_airflow3(node: ImportNode) -> bool:
    """Airflow 3 has `airflow.sdk`, and calls datasets assets."""
    paths = (path.split(".") for path in imported_paths(node))
    return any(path[:2] == ["airflow", "sdk"] or (path[0] == "airflow" and path[-1].startswith("Asset")) for path in paths)


def _of_both(tree: ast.Module) -> ast.stmt | None:
    """An import of Airflow 3 that the file tries, or one of the standard provider, which Airflow 2 can have too."""
    tried = (node for block in ast.walk(tree) if isinstance(block, ast.Try) for node in _imports(block))
    found = [node for node in _imports(tree) if _is_airflow3(node)]
    standard = (node for node in _imports(tree) if f"{imported_paths(node)[0]}.".startswith("airflow.providers.standard."))
    return next((node for node in tried if _is_airflow3(node)), None) if found else next(standard, None)


def _imports(tree: ast.AST) -> Iterator[ImportNode]:
    return (node for node in ast.walk(tree) if isinstance(node, ImportNode))


def imported_paths(node: ImportNode) -> list[str]:
    """The dotted paths that an import names."""
    prefix = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
    return [f"{prefix}{alias.name}" for alias in node.names]
