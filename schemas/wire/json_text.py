"""What is wrong with a JSON text that can be parsed: checked before parsing it, in linear time."""

import re

_SHAPE = bytes.maketrans(b"{}", b"[]")
_NOT_SHAPE = bytes(set(range(256)) - set(b'{}[]"'))
_SLOPES = re.compile(rb"(\[+)(\]*)")


def depth(value: bytes) -> int:
    """How deep arrays and objects are nested in a JSON text, without brackets inside strings.

    Linear also for adversarial texts: work per byte happens in C, in methods of `bytes`.
    """
    shape = value.replace(rb"\\", b"").replace(rb"\"", b"").translate(_SHAPE, _NOT_SHAPE)
    brackets = b"".join(shape.replace(b'""', b"").split(b'"')[::2])
    levels = 0
    while brackets.count(b"[]") * 24 > len(brackets):
        brackets = brackets.replace(b"[]", b"")  # Many pairs of adjacent brackets: one level of all goes at once.
        levels += 1
    return levels + _highest(brackets)


def is_deeper(value: bytes, levels: int) -> bool:
    """Whether arrays and objects are nested deeper than `levels`."""
    return value.count(b"[") + value.count(b"{") > levels and depth(value) > levels


def has_nul(value: bytes) -> bool:
    """Whether a string has the character NUL, which Postgres cannot store."""
    return b"u0000" in value and b"\\u0000" in value.replace(rb"\\", b"")


def _highest(brackets: bytes) -> int:
    level = deepest = 0
    for up, down in _SLOPES.findall(brackets):
        level += len(up)
        deepest = max(deepest, level)
        level -= len(down)
    return deepest
