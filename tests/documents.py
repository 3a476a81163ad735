"""The documentation pages, and the fenced blocks in them."""

import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", *(page for folder in ("schemas", "events", "daemon") for page in (ROOT / folder / "docs").glob("*.md"))]
)

LINKING = sorted({*PAGES, *ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md")})
"""All documents whose links must lead somewhere."""

_FENCE = re.compile(r"^```(?P<info>.*)\n(?P<text>(?:(?!```).*\n)*)```$", re.MULTILINE)
_ENDS_COMMAND = frozenset({"|", "||", "&&", ";", ">", "<", ">>"})


class Block(NamedTuple):
    """A fenced block. `info` is what stands after the opening fence: the language, for JSON also the kind of event."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Step(NamedTuple):
    """A command of a console block, with the output below it."""

    command: str
    output: str


def blocks(*languages: str) -> list[Block]:
    """The blocks of all pages in these languages; of every language if none is given."""
    return [block for page in PAGES for block in _blocks(page) if not languages or block.language in languages]


def steps(block: Block) -> list[Step]:
    """The commands of a console block. A line that ends in a backslash goes on in the next one."""
    commands = re.split(r"^\$ ", block.text.replace("\\\n", ""), flags=re.MULTILINE)
    return [Step(command, output) for command, _, output in (part.partition("\n") for part in commands[1:])]


def has_output(block: Block) -> bool:
    """Whether a console block shows what a command prints."""
    return block.language == "console" and any(step.output for step in steps(block))


def calls(command: str, program: str) -> Iterator[list[str]]:
    """The arguments of each call of a program in a shell command."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _ENDS_COMMAND:
            words.append(word)
            continue
        if words[:1] and Path(words[0]).name == program:
            yield words[1:]
        words = []


class UnitParser(configparser.ConfigParser):
    """Options of systemd have capital letters."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit_of(block: Block) -> configparser.ConfigParser:
    """The sections of a unit of systemd."""
    unit = UnitParser(interpolation=None)
    unit.read_string(block.text)
    return unit


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in _FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, match.start()) + 1, match["info"], match["text"])
