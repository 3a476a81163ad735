"""The text of a log with the colours that its program wrote, as HTML. The text is untrusted: each piece is escaped by itself."""

import re
from collections.abc import Iterator

from markupsafe import Markup

from tidegate.daemon.web.shown import escaped

_SEQUENCE = re.compile(r"\x1b\[([0-?]*)[ -/]*([@-~])")
"""A control sequence of ECMA-48. Only `m` changes how text looks; the others move a cursor, which a page has not."""

_COLOURS = {"0": "dim", "1": "bad", "2": "ok", "3": "run", "4": "link", "5": "held", "6": "link", "7": "ink"}
_STYLES = {"1": "bold", "3": "italic", "4": "underline"}
_ENDS = {"22": "bold", "23": "italic", "24": "underline", "39": "colour"}

PLAIN: dict[str, str] = {}

MARK = Markup('<span id="at"></span>')


def coloured(text: str, wanted: str = "", mark: int | None = None) -> Markup:
    """The text with its colours; `wanted` is marked wherever it is, and so is the place before the character `mark`."""
    pattern = re.compile(f"({re.escape(wanted)})", re.IGNORECASE) if wanted else None
    return Markup("").join(_html(text, pattern, mark))


def _html(text: str, wanted: re.Pattern[str] | None, mark: int | None) -> Iterator[Markup]:
    style, begin = dict(PLAIN), 0
    for found in _SEQUENCE.finditer(text):
        yield from _piece(text, begin, found.start(), style, wanted, mark)
        if found[2] == "m":
            style = restyled(style, found[1])
        if mark is not None and found.start() <= mark < found.end():
            yield MARK
        begin = found.end()
    yield from _piece(text, begin, len(text), style, wanted, mark)
    if mark == len(text):
        yield MARK


def _piece(
    text: str, begin: int, end: int, style: dict[str, str], wanted: re.Pattern[str] | None, mark: int | None
) -> Iterator[Markup]:
    if mark is not None and begin <= mark < end:
        yield _styled(text[begin:mark], style, wanted)
        yield MARK
        begin = mark
    yield _styled(text[begin:end], style, wanted)


def _styled(text: str, style: dict[str, str], wanted: re.Pattern[str] | None) -> Markup:
    if not text:
        return Markup("")
    shown = _marked(text, wanted) if wanted else escaped(text)
    classes = " ".join(f"a-{name}" for name in style.values())
    return Markup('<span class="{}">{}</span>').format(classes, shown) if classes else shown


def _marked(text: str, wanted: re.Pattern[str]) -> Markup:
    parts = wanted.split(text)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(escaped(part)) if number % 2 else escaped(part) for number, part in enumerate(parts)
    )


def restyled(style: dict[str, str], parameters: str) -> dict[str, str]:
    """The style after a sequence. Backgrounds are left out, and so are colours of a palette: their contrast is unknown."""
    style, codes = dict(style), [code.lstrip("0") or "0" for code in re.split("[;:]", parameters)]
    while codes:
        code = codes.pop(0)
        if code == "0":
            style.clear()
        elif code in ("38", "48"):
            del codes[: 2 if codes[:1] == ["5"] else 4]
        elif code in _STYLES:
            style[_STYLES[code]] = _STYLES[code]
        elif code in _ENDS:
            style.pop(_ENDS[code], None)
        elif len(code) == 2 and code[0] in "39" and code[1] in _COLOURS:
            style["colour"] = _COLOURS[code[1]]
    return style
