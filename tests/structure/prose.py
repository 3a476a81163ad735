"""The words of prose: how often docstrings, comments, texts of the product and pages use words that hide who does what.

"Whoever reads it" has no subject that a reader could look up; "the relay reads it" has one. CONTRIBUTING.md has the rule.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.structure.imports import FOLDERS, ROOT

WORDS = (
    "whoever",
    "whomever",
    "somebody",
    "nobody",
    "anybody",
    "everybody",
    "someone",
    "anyone",
    "those that",
    "those who",
    "what is to",
    "so many",
)
SEARCHED = (*FOLDERS, "tests", ".src/tidegate")
EXCEPT = {"prose.py": "lists the words", "CONTRIBUTING.md": "quotes them", "RESULTS.md": "records are not rewritten"}
"""By the name of a file, why it is left out."""

_QUOTED = re.compile(r"```.*?```|`[^`]*`|\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_WORD = re.compile("|".join(rf"\b{word}\b".replace(" ", r"\s+") for word in WORDS), re.IGNORECASE)


class Occurrence(NamedTuple):
    """A vague word, in lower case, and where it stands."""

    path: Path
    line: int
    word: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.word}"


def vague_words() -> Counter[str]:
    """How often each word occurs."""
    return Counter(occurrence.word for occurrence in occurrences())


def occurrences() -> Iterator[Occurrence]:
    """Each occurrence of a vague word."""
    for path in _sources():
        if not _WORD.search(path.read_text()):
            continue
        for first, prose in PROSE[path.suffix](path):
            for found in _WORD.finditer(prose):
                line = first + prose.count("\n", 0, found.start())
                yield Occurrence(path, line, re.sub(r"\s+", " ", found.group().lower()))


def _sources() -> Iterator[Path]:
    found = (path for folder in SEARCHED for path in sorted((ROOT / folder).rglob("*")))
    yield from (path for path in (*found, *sorted(ROOT.glob("*.md"))) if path.suffix in PROSE and path.name not in EXCEPT)


def _python_prose(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text()
    strings = _strings(ast.parse(source), only_docstrings="tests" in path.parts)
    yield from ((line, _unquoted(text)) for line, text in strings if " " in text)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    yield 1, "\n".join(comments.get(line, "") for line in range(1, len(source.splitlines()) + 1))


def _strings(tree: ast.AST, *, only_docstrings: bool) -> Iterator[tuple[int, str]]:
    nodes = list(ast.walk(tree))
    found = [node.value for node in nodes if isinstance(node, ast.Expr)] if only_docstrings else nodes
    yield from ((node.lineno, node.value) for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _sql_comments(path: Path) -> Iterator[tuple[int, str]]:
    yield 1, "\n".join(line.partition("--")[2].strip() for line in path.read_text().splitlines())


def _page(path: Path) -> Iterator[tuple[int, str]]:
    """A page without what it quotes, or a template without its expressions."""
    yield 1, _unquoted(path.read_text())


def _unquoted(text: str) -> str:
    """The text in as many lines, with a space for each quotation."""
    return _QUOTED.sub(lambda quoted: " " + "\n" * quoted.group().count("\n"), text)


PROSE = {".py": _python_prose, ".sql": _sql_comments, ".md": _page, ".html": _page}
"""By suffix, the pieces of prose in a file, each with the number of its first line."""
