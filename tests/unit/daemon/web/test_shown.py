"""Text of tasks, producers and users cannot disguise a page."""

import re
from typing import Any

import pytest
from markupsafe import Markup

from tests.unit.daemon.web.test_cells import row_of
from tests.unit.daemon.web.test_rendering import sources
from tidegate.daemon.web.command_links import with_links
from tidegate.daemon.web.rendering import environment
from tidegate.daemon.web.shown import shown
from tidegate.schemas.queries.grid import GridCell

OVERRIDE = "\N{RIGHT-TO-LEFT OVERRIDE}"

FORMS = {"audit", "dag", "dead_letters", "form", "login", "notifications", "parts"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("load\t1\r\n", "load\t1\r\n"),
        ("שלום, مرحبا می\N{ZERO WIDTH NON-JOINER}خواهم", "שלום, مرحبا می\N{ZERO WIDTH NON-JOINER}خواهم"),
        (f"a{OVERRIDE}b\N{POP DIRECTIONAL FORMATTING}", r"a\u202eb\u202c"),
        ("\N{RIGHT-TO-LEFT ISOLATE}a\N{POP DIRECTIONAL ISOLATE}\N{RIGHT-TO-LEFT MARK}", r"\u2067a\u2069\u200f"),
        ("\N{ARABIC LETTER MARK}\N{ZERO WIDTH SPACE}\N{LINE SEPARATOR}\ufeff", r"\u061c\u200b\u2028\ufeff"),
        ("\x1b[31m\x00\x9b", r"\x1b[31m\x00\x9b"),
    ],
)
def test_what_reorders_text_or_is_invisible_is_shown(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ it }}", r"&lt;a\u202e"),
        ('<a title="{{ it }}">', r'<a title="&lt;a\u202e">'),
        ("{{ [it, it] | join(', ') }}", r"&lt;a\u202e, &lt;a\u202e"),
        ("{% macro of(text) %}{{ text }}{% endmacro %}{{ of(it) }}", r"&lt;a\u202e"),
        ("{{ html }} {{ 7 }}", "<b> 7"),
        ('<input value="{{ it | exact }}">', f'<input value="&lt;a{OVERRIDE}">'),
    ],
)
def test_templates_show_it_wherever_a_value_stands(source: str, expected: str) -> None:
    values: dict[str, Any] = {"it": f"<a{OVERRIDE}", "html": Markup("<b>")}

    assert environment().from_string(source).render(values) == expected


def test_so_do_cells_and_sentences_with_links() -> None:
    sentence = f"it failed: {OVERRIDE}; `tidegate runs cancel d {OVERRIDE}` or `tidegate nothing {OVERRIDE}`"
    linked = with_links(sentence, may=lambda *_: True)

    assert OVERRIDE not in row_of(GridCell("failed", 0, 0, 1), OVERRIDE)
    assert (OVERRIDE in linked, linked.count(r"\u202e"), linked.count("%E2%80%AE")) == (False, 3, 1)


def test_fields_of_forms_send_their_text_back_unchanged() -> None:
    """A field whose value is shown would change it at the next submission; that of a progress bar is a number."""
    fields = {
        name: [tag for tag in re.findall(r"<(?:input|option|textarea)\b.*?>", source) if 'value="{{' in tag]
        for name, source in sources().items()
    }
    changed = [tag for tags in fields.values() for tag in tags if "| exact" not in tag and 'name="csrf"' not in tag]

    assert changed == []
    assert {name.removesuffix(".html") for name, tags in fields.items() if tags} >= FORMS
