"""Text as pages show it: characters that reorder the text around them, or that nothing shows, stand as escapes."""

import re

from markupsafe import Markup, escape

_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, except tabs and ends of lines
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # controls of bidirectional text
    "\u200b\u2028\u2029\u2060\ufeff"  # spaces without width, and separators of lines
    "]"
)
"""Joiners are not among them: they shape words of Persian and Hindi, and pictures."""


def shown(text: str) -> str:
    """`\\u202e` in place of a right-to-left override: two ids that differ never look the same."""
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escaped(text: str) -> Markup:
    """Text as HTML."""
    return escape(shown(text))


def finalized(value: object) -> object:
    """The value of an expression of a template. HTML stays as it is."""
    return value if isinstance(value, int | float) or hasattr(value, "__html__") else shown(str(value))


def exact(value: object) -> Markup:
    """The value of a field of a form, which sends it back unchanged."""
    return escape(value)
