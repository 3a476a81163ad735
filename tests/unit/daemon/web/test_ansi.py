"""Colours of logs as HTML: only known styles, and every piece of text escaped."""

import pytest

from tidegate.daemon.web.ansi import PLAIN, coloured, restyled


@pytest.mark.parametrize(
    ("text", "html"),
    [
        pytest.param("plain <b>\n", "plain &lt;b&gt;\n", id="no colour"),
        pytest.param("\x1b[31mred\x1b[0m back", '<span class="a-bad">red</span> back', id="a colour and its end"),
        pytest.param(
            "\x1b[1;32mboth\x1b[39mbold", '<span class="a-bold a-ok">both</span><span class="a-bold">bold</span>', id="two styles"
        ),
        pytest.param("\x1b[31m<script>\x1b[m", '<span class="a-bad">&lt;script&gt;</span>', id="markup in a colour"),
        pytest.param('\x1b[31"><i>m', "\x1b", id="markup in a sequence"),
        pytest.param("\x1b[38;5;196mpalette\x1b[48;2;1;2;3mtrue", "palettetrue", id="other colours are left out"),
        pytest.param("\x1b[38;5;31;4mx", '<span class="a-underline">x</span>', id="a number of a palette is no colour"),
        pytest.param("10%\x1b[2K\x1b[1G20%", "10%20%", id="movements of the cursor"),
        pytest.param("a\u202eb\x1b]0;title\x07", r"a\u202eb\x1b]0;title\x07", id="what nothing shows"),
        pytest.param("\x1b[", r"\x1b[", id="a sequence that is cut"),
        pytest.param("\x1b[31m\x1b[32m", "", id="colours of nothing"),
        pytest.param("\x1b[999;;;31m!", '<span class="a-bad">!</span>', id="unknown parameters"),
    ],
)
def test_a_log_has_its_colours_and_no_markup(text: str, html: str) -> None:
    found = str(coloured(text))

    assert found == html if html != "\x1b" else "<i>" not in found


@pytest.mark.parametrize(
    ("text", "wanted", "mark", "html"),
    [
        ("an Error and error", "error", None, "an <mark>Error</mark> and <mark>error</mark>"),
        ("a<b>c", "<b>", None, "a<mark>&lt;b&gt;</mark>c"),
        ("a.b", ".", None, "a<mark>.</mark>b"),
        ("\x1b[31mab\x1b[0m", "b", None, '<span class="a-bad">a<mark>b</mark></span>'),
        ("one\ntwo", "", 4, 'one\n<span id="at"></span>two'),
        ("\x1b[31mab", "", 6, '<span class="a-bad">a</span><span id="at"></span><span class="a-bad">b</span>'),
        ("a\x1b[31mb", "", 3, 'a<span id="at"></span><span class="a-bad">b</span>'),
        ("a", "", 1, 'a<span id="at"></span>'),
    ],
)
def test_what_is_looked_for_is_marked(text: str, wanted: str, mark: int | None, html: str) -> None:
    assert str(coloured(text, wanted, mark)) == html


def test_the_place_is_marked_once() -> None:
    text = "\x1b[31ma\x1b[0mb\n"

    for mark in range(len(text) + 1):
        assert str(coloured(text, "", mark)).count('<span id="at">') == 1, mark


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("", PLAIN),
        ("0", PLAIN),
        ("01", {"colour": "held", "bold": "bold"}),
        ("22;4", {"colour": "held", "underline": "underline"}),
        ("91", {"colour": "bad"}),
        ("38:5:9", {"colour": "held"}),
        ("7", {"colour": "held"}),
    ],
)
def test_parameters_change_the_style(parameters: str, style: dict[str, str]) -> None:
    assert restyled({"colour": "held"}, parameters) == style
