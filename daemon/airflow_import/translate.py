"""From an Airflow file to the text of a Tidegate file."""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath

from tidegate.daemon.airflow_import.context import Context, Decorated
from tidegate.daemon.airflow_import.expressions import translate
from tidegate.daemon.airflow_import.facts import imported_paths
from tidegate.daemon.airflow_import.lost_order import lost_edges, text_of
from tidegate.daemon.airflow_import.modules import Modules
from tidegate.daemon.airflow_import.report import Omission, Translation, omission, ordered
from tidegate.daemon.airflow_import.source import Source, UnreadableFileError, first_line, last_line, parse_source, read_source
from tidegate.daemon.airflow_import.statements import write_block, write_statements

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def translate_file(path: Path) -> Translation:
    """Raises UnreadableFileError."""
    found = translate_tree({path: PurePosixPath(path.name)}, ())[path]
    if isinstance(found, UnreadableFileError):
        raise found
    return found


def translate_tree(files: Mapping[Path, PurePath], roots: Collection[str]) -> dict[Path, Translation | UnreadableFileError]:
    """The files by their paths below the folder that is written: their modules import each other.

    `roots` are the names of the folders that are imported.
    """
    found: dict[Path, Translation | UnreadableFileError] = {}
    sources: dict[str, Source] = {}
    for file, name in files.items():
        try:
            sources.setdefault(name.as_posix(), read_source(file))
        except UnreadableFileError as error:
            found[file] = error
    modules = Modules(sources, frozenset(roots), _read_module)
    paths = {file: name.as_posix() for file, name in files.items() if file not in found}
    for path in paths.values():
        modules.context(path)
    return found | {file: _result(modules, file, path) for file, path in paths.items()}


def _read_module(modules: Modules[Context], path: str) -> Context | None:
    """What the translation says of a module; None for a folder, and for a file that cannot be translated."""
    try:
        return _read(modules.sources[path], modules, path) if path in modules.sources else None
    except RecursionError:
        return None


def _result(modules: Modules[Context], file: Path, path: str) -> Translation | UnreadableFileError:
    context = modules.context(path)
    if context is None:
        return UnreadableFileError(f"{file}: its expressions are nested too deeply to be translated")
    if context.omissions and path not in modules.read_at_parsing and _stays(context.source):
        # Functions of tasks import it when they run, where all packages are.
        return Translation("\n".join(context.source.lines).rstrip("\n") + "\n", ())
    try:
        return _translation(context)
    except UnreadableFileError as error:
        return UnreadableFileError(f"{file}: {error}; translate it by hand")
    except SyntaxError as error:
        return UnreadableFileError(f"{file}: its translation is not valid Python: {error.msg}; translate it by hand")
    except RecursionError:
        return UnreadableFileError(f"{file}: its expressions are nested too deeply to be translated")


def _stays(source: Source) -> bool:
    """Whether a file is a module without Airflow, which a daemon takes for no DAG file either."""
    imports = (node for node in ast.walk(source.tree) if isinstance(node, ast.Import | ast.ImportFrom))
    packages = {path.split(".")[0] for node in imports for path in imported_paths(node)}
    return not packages & {"airflow", "tidegate"} and not re.search("dag", "\n".join(source.lines), re.IGNORECASE)


def translate_source(source: Source) -> Translation:
    """The same source gives the same translation."""
    return _translation(_read(source, None, ""))


def _read(source: Source, modules: Modules[Context] | None, path: str) -> Context:
    context = Context(source, translate, write_block, modules, path)
    head, body = _head(source)
    end = last_line(body[-1]) + 1 if body else len(head) + 1
    write_statements(context, body, len(head) + 1)
    for name in context.pending:
        node = context.facts.functions[name]
        context.leave_out(
            omission(node, f"def {name}", "the call that makes a task of it was left out", "translate the call first")
        )
    for binding in context.bindings.values():
        if isinstance(binding, Decorated) and not binding.imported_as and binding.kind in ("dag", "task_group"):
            _report_unwritten(context, binding)
    context.emit([source.comments[line] for line in sorted(source.comments) if line >= end])
    return context


def _report_unwritten(context: Context, decorated: Decorated) -> None:
    """A function whose body is written where it is called, and whose calls were left out."""
    name = decorated.node.name
    if name not in context.inlined and context.facts.uses[name]:
        why = "the call that makes a part of a DAG of it was left out"
        context.leave_out(omission(decorated.node, f"@{decorated.kind} def {name}", why, "translate the call first"))


def _translation(context: Context) -> Translation:
    head, _ = _head(context.source)
    text = "\n".join(_tidy(_assembled(context, head))).strip("\n") + "\n"
    return Translation(text, ordered([*context.omissions, *_lost_order(context, text)]))


def _lost_order(context: Context, text: str) -> Iterator[Omission]:
    """What the translation does not say of the order, and no other entry of the list covers."""
    for edge in lost_edges(context.source.tree, ast.parse(text)):
        if not any(left.line <= edge.end_line and edge.line <= left.end_line for left in context.omissions):
            what = f"order {text_of(edge.before)} >> {text_of(edge.after)}"
            yield Omission(
                edge.line, edge.end_line, what, "the translation does not say it", "compare both, and write it with >>"
            )


def _head(source: Source) -> tuple[list[str], list[ast.stmt]]:
    """The lines up to the docstring, or else the comments at the top, and the statements after them."""
    body = source.tree.body
    if ast.get_docstring(source.tree) is not None:
        return source.moved(1, last_line(body[0]), 0, ""), body[1:]
    first = first_line(body[0]) if body else len(source.lines) + 1
    length = 0
    while length + 1 < first and (length + 1 in source.comments or not source.lines[length].strip()):
        length += 1
    return source.moved(1, length, 0, ""), body


def _assembled(context: Context, head: list[str]) -> list[str]:
    """The head of the file, the imports that its code uses, and the code."""
    used = {node.id for node in ast.walk(ast.parse("\n".join(context.lines))) if isinstance(node, ast.Name)}
    future = ["from __future__ import annotations", ""] if context.future_annotations else []
    groups = [_imports(context, used, ours=False), _imports(context, used, ours=True), _local_imports(context, used)]
    imports = [line for group in groups if group for line in [*group, ""]]
    return [*head, *([""] if head else []), *future, *imports, *context.lines]


def _imports(context: Context, used: set[str], *, ours: bool) -> list[str]:
    """`import` lines, then `from` lines, each in the order of the alphabet."""
    plain: set[str] = set()
    names: dict[str, set[str]] = defaultdict(set)
    for module, identifier in context.needed:
        names[module].add(identifier)
    for module, alias, whole in _standard(context, used):
        if whole:
            plain.add(ast.unparse(ast.Import(names=[alias])))
        else:
            names[module].add(ast.unparse(ast.Import(names=[alias])).removeprefix("import "))
    chosen = {module: found for module, found in names.items() if (module == "tidegate") == ours}
    lines = [f"from {module} import {', '.join(sorted(found, key=_isort_key))}" for module, found in sorted(chosen.items())]
    return lines if ours else [*sorted(plain), *lines]


def _local_imports(context: Context, used: set[str]) -> list[str]:
    """The imports of modules of the tree that the code needs while it is parsed."""
    read = sorted(((context.read_at_parsing & used) | context.exported) & context.local.keys())
    plain: set[str] = set()
    names: dict[str, set[str]] = defaultdict(set)
    for node in (ast.parse(context.local[name].text(name)).body[0] for name in read):
        if isinstance(node, ast.ImportFrom):
            names[node.module or ""].add(ast.unparse(ast.Import(names=node.names)).removeprefix("import "))
        else:
            plain.add(ast.unparse(node))
    found = (f"from {module} import {', '.join(sorted(names[module], key=_isort_key))}" for module in sorted(names))
    return [*sorted(plain), *found]


def _standard(context: Context, used: set[str]) -> Iterator[tuple[str, ast.alias, bool]]:
    yield from (found for local, found in sorted(context.standard.items()) if local.split(".")[0] in used)


def _isort_key(identifier: str) -> tuple[int, str]:
    """Constants, classes, then functions, as import sorters order them."""
    kind = 0 if identifier.isupper() else 1 if identifier[:1].isupper() else 2
    return kind, identifier


def _tidy(lines: list[str]) -> list[str]:
    """Blank lines as formatters set them: two around functions of the module, one around those in a block."""
    source = parse_source("its translation", "\n".join(lines).encode())
    wanted = dict(_wanted_blanks(source, source.tree, 2))
    tidied: list[str] = []
    for number, line in enumerate(lines, 1):
        ends_function = line.startswith("#") and _last(tidied).startswith(" ")
        if number in wanted or (ends_function and number not in source.string_lines):
            while tidied and not tidied[-1].strip():
                tidied.pop()
            tidied.extend([""] * wanted.get(number, 2))
        if line.strip() or number in source.string_lines or tidied[-2:] != ["", ""]:
            tidied.append(line)
    return tidied


def _last(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if line.strip()), "")


def _wanted_blanks(source: Source, node: ast.AST, most: int) -> Iterator[tuple[int, int]]:
    """How many blank lines belong before a line."""
    for block in ("body", "orelse", "finalbody", "handlers"):
        opened = isinstance(node, ast.With | ast.For | ast.If | ast.While)
        statements = [child for child in getattr(node, block, None) or [] if isinstance(child, ast.stmt | ast.ExceptHandler)]
        for index, child in enumerate(statements):
            yield from _wanted_blanks(source, child, 1)
            if isinstance(child, ast.stmt):
                before = statements[index - 1] if index else None
                line = _start(source, child)
                first = opened and before is None and isinstance(child, _DEFINITIONS)
                yield line, 1 if first else _blanks(source, before, child, line, most)


def _start(source: Source, node: ast.stmt) -> int:
    line = first_line(node)
    while line - 1 in source.comments:
        line -= 1
    return line


def _blanks(source: Source, before: ast.AST | None, node: ast.stmt, line: int, most: int) -> int:
    if before is None:
        return min(source.blanks_before(line), 1) if most == 2 else 0
    if isinstance(node, _DEFINITIONS) or isinstance(before, _DEFINITIONS):
        return most
    imports = ast.Import | ast.ImportFrom
    if isinstance(before, imports) and not isinstance(node, imports):
        return 1
    return min(source.blanks_before(line), most)
