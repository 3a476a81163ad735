"""The words of docstrings and comments: how often the code uses words that hide who does what.

"Whoever reads it" has no subject that a reader could look up; "the relay reads it" has one. CONTRIBUTING.md has the rule.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.structure.imports import FOLDERS, ROOT

WORDS = ("whoever", "whomever", "somebody", "nobody", "anybody", "someone", "those that", "those who", "what is to")
SEARCHED = (*FOLDERS, "tests", ".src/tidegate")

_WORD = re.compile("|".join(rf"\b{word}\b".replace(" ", r"\s+") for word in WORDS), re.IGNORECASE)


def vague_words() -> Counter[str]:
    """How often each word occurs in the docstrings and comments of Python, and in the comments of SQL."""
    counts: Counter[str] = Counter()
    for _, word in occurrences():
        counts[word] += 1
    return counts


def occurrences() -> Iterator[tuple[Path, str]]:
    """Each occurrence: the file, and the word in lower case."""
    for path in _sources():
        if not _WORD.search(path.read_text()):
            continue
        for prose in _sql_comments(path) if path.suffix == ".sql" else _python_prose(path):
            yield from ((path, re.sub(r"\s+", " ", found.group().lower())) for found in _WORD.finditer(prose))


def _sources() -> Iterator[Path]:
    for folder in SEARCHED:
        yield from sorted(
            path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".sql"} and path != Path(__file__)
        )


def _python_prose(path: Path) -> Iterator[str]:
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    comments = [
        token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield "\n".join(comments)


def _sql_comments(path: Path) -> Iterator[str]:
    yield "\n".join(line.partition("--")[2].strip() for line in path.read_text().splitlines())
