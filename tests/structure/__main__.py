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
        CONTRIBUTING.write_text(written(CONTRIBUTING.read_text()))
        return
    show(*_figures(), sep="\n")
    if "--words" in options:
        show(*(f"{path.relative_to(ROOT)}: {word}" for path, word in occurrences()), sep="\n")


def _figures() -> Iterator[str]:
    for folder in FOLDERS:
        graph = import_graph(ROOT / folder, f"tidegate.{folder}")
        arrows = sum(map(len, graph.values()))
        yield f"{folder:<9} {max(levels(graph).values())} levels, {len(graph)} entries, {arrows} imports between them"
    sizes = measure()
    yield f"lines     {sizes.lines} of Python and SQL, at most {sizes.longest_file_lines} a file ({sizes.longest_file})"
    yield f"functions {sizes.functions}, median {sizes.function_median} lines, p95 {sizes.function_p95}"
    yield f"repeats   {len(repeats())} runs of identical lines"
    words = vague_words()
    yield f"prose     {words.total()} vague words: {', '.join(f'{word} {count}' for word, count in words.most_common())}"


main(sys.argv[1:])
