"""`python -m tests.structure` prints the figures of the code; `--words` lists the vague words, `--write` draws the picture."""

import sys
from collections.abc import Iterator

from rich import print as show

from tests.structure.imports import FOLDERS, ROOT, import_graph, levels
from tests.structure.picture import CONTRIBUTING, written
from tests.structure.prose import occurrences, vague_words
from tests.structure.repeats import repeats
from tests.structure.sizes import measure


def main(options: list[str]) -> None:
    if "--write" in options:
        _write()
        return
    show(*_figures(), sep="\n")
    if "--words" in options:
        show(*occurrences(), sep="\n")


def _write() -> None:
    try:
        CONTRIBUTING.write_text(written(CONTRIBUTING.read_text()))
    except ValueError as error:
        sys.exit(f"error: {error}")


def _figures() -> Iterator[str]:
    for folder in FOLDERS:
        graph = import_graph(ROOT / folder, f"tidegate.{folder}")
        arrows = sum(map(len, graph.values()))
        yield f"{folder:<9} {max(levels(graph).values())} levels, {len(graph)} entries, {arrows} imports between them"
    sizes = measure()
    longest = next(iter(sizes.files))
    yield f"lines     {sizes.lines} of Python and SQL, at most {sizes.files[longest]} a file ({longest})"
    yield f"functions {len(sizes.functions)}, median {sizes.function_median} lines, p95 {sizes.function_p95}"
    yield f"repeats   {len(repeats())} runs of identical lines"
    words = vague_words()
    yield f"prose     {words.total()} vague words: {', '.join(f'{word} {count}' for word, count in words.most_common())}"


main(sys.argv[1:])
