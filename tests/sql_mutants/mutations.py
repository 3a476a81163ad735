"""The mutants of a statement: without a lock, in the opposite order, or without a comparison of an owner, an epoch or an offset.

Without its ORDER BY a statement may return any order, but mostly the planner takes the index that has the wanted one. So the
mutant asks for the opposite.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidegate.schemas.queries import sql

_COMMENT = re.compile(r"--[^\n]*")
_LOCK = re.compile(r"\s*\bFOR (?:NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)(?: OF \w+(?:, \w+)*)?(?: SKIP LOCKED| NOWAIT)?")
_SKIP = re.compile(r" SKIP LOCKED")
_ORDER = re.compile(r"(?<!WITHIN GROUP \()\bORDER BY\b")
_ENDS_ORDER = re.compile(r"[()]|\b(?:LIMIT|OFFSET|FETCH|FOR|ROWS|RANGE|RETURNING|UNION|ON CONFLICT)\b")
_KEY = re.compile(r"(.*?)( ASC| DESC)?( NULLS FIRST| NULLS LAST)?(\s*)", re.DOTALL)
_CONDITION = re.compile(
    r"[()]|\b(?:AND|OR|WHERE|ON|WHEN|THEN|ORDER BY|GROUP BY|LIMIT|FOR|RETURNING|UNION|SET|LEFT JOIN|CROSS JOIN|JOIN|END)\b"
)
_FENCE = re.compile(r"\b(?:owner|epoch|next_offset)\b")
_COMPARED = re.compile(r"<>|=|IS (?:NOT )?DISTINCT FROM|<|>|\bANY\b|\bALL\b")


class Mutant(NamedTuple):
    """A statement with one part changed. `part` is the former text, in one line; `number` tells equal parts apart, from 1."""

    statement: str
    part: str
    number: int
    sql: str

    @property
    def name(self) -> str:
        return f"{self.statement} {self.number}: {self.part}"


def all_mutants() -> Iterator[Mutant]:
    for path in sorted(Path(sql.__file__).parent.glob("*.sql")):
        for name, text in sql.load(path.stem).items():
            yield from mutants_of(f"{path.stem}.{name}", text)


def mutants_of(statement: str, text: str) -> Iterator[Mutant]:
    """All mutants of a statement, in the order of the parts."""
    plain = _COMMENT.sub(lambda found: " " * len(found[0]), text)
    seen: dict[str, int] = {}
    for start, end, instead in sorted({*_locks(plain), *_orders(plain), *_fences(plain)}):
        part = " ".join(plain[start:end].split())
        seen[part] = seen.get(part, 0) + 1
        yield Mutant(statement, part, seen[part], f"{plain[:start]}{instead}{plain[end:]}")


def _locks(text: str) -> Iterator[tuple[int, int, str]]:
    yield from ((*found.span(), "") for found in _LOCK.finditer(text))
    yield from ((*found.span(), "") for found in _SKIP.finditer(text))


def _orders(text: str) -> Iterator[tuple[int, int, str]]:
    for found in _ORDER.finditer(text):
        end = _end(text, found.end(), _ENDS_ORDER)
        yield found.start(), end, "ORDER BY" + ",".join(map(_opposite, _keys(text[found.end() : end])))


def _keys(text: str) -> Iterator[str]:
    """The keys of an order: commas inside of brackets part none."""
    depth = start = 0
    for position, sign in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _opposite(key: str) -> str:
    found = _KEY.fullmatch(key)
    assert found is not None
    nulls = {" NULLS FIRST": " NULLS LAST", " NULLS LAST": " NULLS FIRST"}.get(found[3], "")
    return f"{found[1]}{'' if found[2] == ' DESC' else ' DESC'}{nulls}{found[4]}"


def _fences(text: str) -> Iterator[tuple[int, int, str]]:
    """Conditions that compare an owner, an epoch or an offset. They hold in the mutant. Rows are compared without the column."""
    for found in re.finditer(r"\b(?:AND|WHERE|ON)\b", text):
        end = _end(text, found.end(), _CONDITION)
        condition = text[found.end() : end]
        if _FENCE.search(condition) and _COMPARED.search(condition) and "SELECT" not in condition and "CASE" not in condition:
            # The parameters stay, for the statement keeps its arguments.
            yield found.end(), end, _without_column(condition) or f" ({condition.strip()} OR true) "


def _without_column(condition: str) -> str:
    """A comparison of two rows without its pair of columns; empty for another condition."""
    rows = re.fullmatch(r"(\s*)\(([^()]*)\) = \(([^()]*)\)(\s*)", condition)
    if rows is None:
        return ""
    pairs = zip(rows[2].split(", "), rows[3].split(", "), strict=True)
    kept = [pair for pair in pairs if not any(map(_FENCE.search, pair))]
    return f"{rows[1]}({', '.join(left for left, _ in kept)}) = ({', '.join(right for _, right in kept)}){rows[4]}"


def _end(text: str, start: int, ends: re.Pattern[str]) -> int:
    """Where a clause ends that begins at `start`: at one of the words, or at the bracket that closes what is around it."""
    depth = 0
    for found in ends.finditer(text, start):
        if depth == 0 and found[0] != "(":
            return found.start()
        depth += {"(": 1, ")": -1}.get(found[0], 0)
    return len(text)
