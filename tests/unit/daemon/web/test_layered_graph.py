"""Layouts of graphs."""

from itertools import pairwise

import pytest

from tidegate.daemon.web.layered_graph import ACROSS, DOWN, HEIGHT, LETTERS, WIDTH, Box, drawing, layers_of, layout


@pytest.mark.parametrize(
    ("edges", "layers"),
    [
        ("", [["a", "b", "c", "d"]]),
        ("ab bc cd", [["a"], ["b"], ["c"], ["d"]]),
        ("ab ac bd cd ad", [["a"], ["b", "c"], ["d"]]),
        ("ab ba cd", [["a", "c"], ["b", "d"]]),
        ("aa ab", [["a", "c", "d"], ["b"]]),
    ],
)
def test_a_node_is_a_layer_after_the_last_of_its_upstream_nodes(edges: str, layers: list[list[str]]) -> None:
    assert layers_of("abcd", [(edge[0], edge[1]) for edge in edges.split()]) == layers


def test_nodes_stand_near_their_neighbours() -> None:
    """Without an order the two edges would cross."""
    found = layout("abyx", [("a", "x"), ("b", "y")])

    places = {node.name: (node.x, node.y) for node in found.nodes}
    assert places == {"a": (0, 0), "b": (0, DOWN), "x": (ACROSS, 0), "y": (ACROSS, DOWN)}
    assert (found.width, found.height) == (ACROSS + WIDTH, 2 * DOWN)
    assert found.paths[0].startswith(f"M{WIDTH} {HEIGHT // 2}C")


def test_nodes_do_not_overlap() -> None:
    names = [str(number) for number in range(60)]
    edges = [(names[n], names[m]) for n in range(60) for m in range(n + 1, 60) if (n * 7 + m * 3) % 11 == 0]

    columns: dict[int, list[int]] = {}
    for node in layout(names, edges).nodes:
        columns.setdefault(node.x, []).append(node.y)

    assert all(after - before >= DOWN for ys in columns.values() for before, after in pairwise(sorted(ys)))


def test_a_graph_without_nodes_is_empty() -> None:
    assert (layout([], [("a", "b")]).paths, layout([], []).width) == ([], 0)


LONG = "x" * (LETTERS + 1)


@pytest.mark.parametrize(
    ("box", "colour", "title", "text"),
    [
        (Box("load"), "none", "load", "load"),
        (Box("load", state="failed"), "bad", "load: failed", "✕ load"),
        (Box("daily", kind="dag"), "dag", "daily", "daily"),
        (Box(LONG[1:]), "none", LONG[1:], LONG[1:]),
        (Box(LONG, state="success"), "ok", f"{LONG}: success", f"● {LONG[2:]}…"),
    ],
)
def test_a_node_says_what_fits_into_it(box: Box, colour: str, title: str, text: str) -> None:
    node = drawing({"a": box}, []).nodes[0]

    assert (node.colour, node.title, node.text) == (colour, title, text)


def test_the_frames_of_nodes_are_within_the_drawing() -> None:
    found = drawing({"a": Box("a"), "b": Box("b")}, [("a", "b")])

    assert max(node.x + found.node_width for node in found.nodes) + 2 * found.margin == found.width
    assert max(node.y + found.node_height for node in found.nodes) < found.height
