"""The documentation pages, and the fenced blocks in them."""

import configparser
import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", *(page for folder in ("schemas", "events", "daemon") for page in (ROOT / folder / "docs").glob("*.md"))]
)

LINKING = sorted({*PAGES, *ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md"), *ROOT.glob("tests/*/*.md")})
"""All documents whose links must lead somewhere."""

_FENCE = re.compile(r"^```(?P<info>.*)\n(?P<text>(?:(?!```).*\n)*)```$", re.MULTILINE)
_SUBSTITUTED = re.compile(r"\$\(([^()]*)\)")
_DESCRIPTOR = re.compile(r"(?<=\s)\d(?=>)")
_ASSIGNMENT = re.compile(r"\w+=")
_PREFIXES = {
    **dict.fromkeys(("do", "then", "else", "if", "while", "!", "{", "sudo", "env", "exec", "nohup", "time", "command"), 1),
    "-u": 2,
}
"""Words before the name of a program, with the number of words that each takes. What `xargs` calls gets its arguments later."""

_FILE = re.compile(r"# \.tidegate/dags/(\S+)\n")


class Block(NamedTuple):
    """A fenced block. `info` is what stands after the opening fence: the language, for JSON also the kind of event."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def file(self) -> str | None:
        """The file of the DAG folder that the block says it is."""
        named = _FILE.match(self.text)
        return named and named[1]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Step(NamedTuple):
    """A command of a console block, with the output below it."""

    command: str
    output: str


def blocks(*languages: str) -> list[Block]:
    """The blocks of all pages in these languages; of every language if none is given."""
    return [block for page in PAGES for block in _blocks(page) if not languages or block.language in languages]


def write_files(page: Path, folder: Path) -> None:
    """Write the files of a DAG folder that a page shows."""
    for block in blocks("python"):
        if block.page == page and block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


def steps(block: Block) -> list[Step]:
    """The commands of a console block. A line that ends in a backslash goes on in the next one."""
    commands = re.split(r"^\$ ", block.text.replace("\\\n", ""), flags=re.MULTILINE)
    return [Step(command, output) for command, _, output in (part.partition("\n") for part in commands[1:])]


def has_output(block: Block) -> bool:
    """Whether a console block shows what a command prints."""
    return block.language == "console" and any(step.output for step in steps(block))


def calls(command: str, program: str) -> Iterator[list[str]]:
    """The arguments of each call of a program in a shell command, also behind assignments, `sudo` and `do`, and in `"$(…)"`."""
    for words in _simple_commands(command):
        name, *args = _without_prefix(words) or [""]
        if Path(name).name == program:
            yield args
        yield from (call for word in words for inner in _SUBSTITUTED.findall(word) for call in calls(inner, program))


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words between `|`, `;`, `$(`, `>` and the like, without quotes."""
    lexer = shlex.shlex(_DESCRIPTOR.sub("", command), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for ends, words in groupby(lexer, lambda word: not word.strip(lexer.punctuation_chars)):
        if not ends:
            yield list(words)


def _without_prefix(words: list[str]) -> list[str]:
    """From the name of the program on."""
    skipped = 0
    while skipped < len(words) and (_ASSIGNMENT.match(words[skipped]) or words[skipped] in _PREFIXES):
        skipped += _PREFIXES.get(words[skipped], 1)
    return words[skipped:]


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
