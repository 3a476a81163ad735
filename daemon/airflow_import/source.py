"""A Python file as text, syntax tree and comments. Nothing of it is executed."""

import ast
import io
import re
import textwrap
import tokenize
import warnings
from pathlib import Path

import msgspec

from tidegate.schemas.error import RequestError

LARGEST = 4_000_000
"""Bytes. The compiler of Python may need hundreds of bytes of memory for each."""


class UnreadableFileError(RequestError):
    """The file is not Python that can be read; the message names the file and the line."""


class Source(msgspec.Struct, frozen=True):
    """A parsed file. `comments` are those on lines of their own, and `trailing` those after code, by line.

    `string_lines` begin inside a string, so that no indentation may be added to them.
    """

    lines: list[str]
    tree: ast.Module
    comments: dict[int, str]
    trailing: dict[int, str]
    string_lines: frozenset[int]
    name: str = ""

    def block(self, node: ast.stmt, indent: str) -> list[str]:
        """The lines of a statement as written, at another indentation."""
        if self.shares_a_line(node):
            return textwrap.indent(ast.unparse(node), indent).splitlines()
        return self.moved(first_line(node), last_line(node), node.col_offset, indent)

    def moved(self, first: int, last: int, column: int, indent: str) -> list[str]:
        """The lines from `first` to `last`, moved from a column to an indentation."""
        return [self._moved(number, column, indent) for number in range(first, last + 1)]

    def blanks_before(self, line: int) -> int:
        """How many blank lines are directly before a line."""
        count = 0
        while line - 2 - count >= 0 and not self.lines[line - 2 - count].strip():
            count += 1
        return count

    def _moved(self, number: int, column: int, indent: str) -> str:
        line = self.lines[number - 1]
        if number in self.string_lines:
            return line
        return (indent + line[min(column, len(line) - len(line.lstrip())) :]).rstrip()

    def shares_a_line(self, node: ast.stmt) -> bool:
        """Whether there is code before or after a statement on its lines."""
        before = self.lines[first_line(node) - 1].encode()[: node.col_offset].decode()
        after = self.lines[last_line(node) - 1].encode()[node.end_col_offset :].decode().strip()
        return bool(before.strip()) or not (not after or after.startswith("#"))


def read_source(path: Path) -> Source:
    """Raises UnreadableFileError."""
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= LARGEST else b""
    except OSError as error:
        raise UnreadableFileError(f"{path}: {error.strerror}") from error
    if size > LARGEST:
        raise UnreadableFileError(f"{path} has {size:,} bytes; at most {LARGEST:,} can be read: split the file")
    return parse_source(str(path), content)


def parse_source(name: str, content: bytes) -> Source:
    """Raises UnreadableFileError."""
    try:
        text = _decoded(name, content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, name)
            # Compiles without running: it finds what the grammar allows, such as a `return` outside of a function.
            compile(tree, name, "exec")
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError) as error:
        raise UnreadableFileError(f"{name}{_place(error)}: it is not valid Python: {_reason(error)}") from error
    except (RecursionError, MemoryError) as error:
        raise UnreadableFileError(f"{name}: its expressions are nested too deeply to be read") from error
    lines = text.split("\n")
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    alone = {token.start[0]: token.string for token in comments if not token.line[: token.start[1]].strip()}
    return Source(
        lines=lines,
        tree=tree,
        comments=alone,
        trailing={token.start[0]: token.string for token in comments if token.start[0] not in alone},
        string_lines=_string_lines(tokens),
        name=name,
    )


def first_line(node: ast.stmt) -> int:
    """The first line of a statement, which is that of its first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _decoded(name: str, content: bytes) -> str:
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise UnreadableFileError(f"{name}:{line}: it has a NUL byte and is no Python file")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
    except SyntaxError as error:
        raise UnreadableFileError(f"{name}:1: {error.msg}; save the file as UTF-8") from error
    except (UnicodeDecodeError, LookupError) as error:
        raise UnreadableFileError(f"{name}: it cannot be decoded: {error}; save the file as UTF-8") from error
    return re.sub(r"\r\n?", "\n", text.removeprefix("\ufeff")).replace("\f", "")


def _string_lines(tokens: list[tokenize.TokenInfo]) -> frozenset[int]:
    kinds = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    strings = (token for token in tokens if token.type in kinds)
    return frozenset(line for token in strings for line in range(token.start[0] + 1, token.end[0] + 1))


def _place(error: SyntaxError | tokenize.TokenError) -> str:
    line = error.lineno if isinstance(error, SyntaxError) else error.args[1][0]
    return f":{line}" if line else ""


def _reason(error: SyntaxError | tokenize.TokenError) -> str:
    return str(error.msg if isinstance(error, SyntaxError) else error.args[0])
