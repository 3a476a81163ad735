"""Places the nodes of a directed graph in layers from left to right (after Sugiyama, without dummy nodes)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from tidegate.daemon.web.rendering import MARKS, colour

WIDTH, HEIGHT = 190, 24
"""The size of a node."""

ACROSS, DOWN = WIDTH + 60, HEIGHT + 10
"""The distance of layers, and of nodes in a layer."""

MARGIN = 2
"""So much of the frame of a node may be outside its size."""

LETTERS = 27
"""The letters that fit into a node."""

SWEEPS = 4

Edge = tuple[str, str]


class Box(Struct, frozen=True):
    """What a node says: its text, the address that it leads to, the state whose colour it has, and a kind that has a colour.

    Empty: none of it.
    """

    text: str
    address: str = ""
    state: str = ""
    kind: str = ""


class Placed(Struct, frozen=True):
    """A node and the place of its upper left corner."""

    name: str
    x: int
    y: int


class Layout(Struct, frozen=True):
    """The nodes, and for each edge the path of its curve in SVG."""

    nodes: Sequence[Placed]
    paths: Sequence[str]
    width: int
    height: int


class Node(Struct, frozen=True):
    """A box where it is drawn. `title` is all of its text, of which `text` fits into it."""

    box: Box
    x: int
    y: int

    @property
    def colour(self) -> str:
        return colour(self.box.state) if self.box.state else self.box.kind or "none"

    @property
    def title(self) -> str:
        return f"{self.box.text}: {self.box.state}" if self.box.state else self.box.text

    @property
    def text(self) -> str:
        text = self.box.text if len(self.box.text) <= LETTERS else f"{self.box.text[: LETTERS - 1]}…"
        return f"{MARKS[self.colour]} {text}" if self.box.state else text

    @property
    def text_x(self) -> int:
        return self.x + 8

    @property
    def text_y(self) -> int:
        return self.y + HEIGHT * 2 // 3


class Drawing(Struct, frozen=True):
    """A graph as it is drawn; each node has the same size. `shortened` are the names that do not fit into their nodes."""

    nodes: Sequence[Node]
    paths: Sequence[str]
    width: int
    height: int
    shortened: Sequence[str] = ()
    margin: int = MARGIN
    node_width: int = WIDTH
    node_height: int = HEIGHT


def drawing(boxes: Mapping[str, Box], edges: Sequence[Edge]) -> Drawing:
    """The boxes by name. Edges between other names are left out."""
    found = layout(list(boxes), edges)
    nodes = [Node(boxes[place.name], place.x, place.y) for place in found.nodes]
    shortened = [node.box.text for node in nodes if len(node.box.text) > LETTERS]
    return Drawing(nodes, found.paths, found.width + 2 * MARGIN, found.height + 2 * MARGIN, shortened)


def layout(names: Sequence[str], edges: Sequence[Edge]) -> Layout:
    """Edges between other names are left out."""
    known = frozenset(names)
    edges = [edge for edge in edges if known.issuperset(edge)]
    layers = _ordered(layers_of(names, edges), edges)
    placed = {
        name: Placed(name, number * ACROSS, row * DOWN) for number, layer in enumerate(layers) for row, name in enumerate(layer)
    }
    return Layout(
        nodes=list(placed.values()),
        paths=[_path(placed[upstream], placed[downstream]) for upstream, downstream in edges],
        width=max(len(layers) * ACROSS - (ACROSS - WIDTH), 0),
        height=max((len(layer) for layer in layers), default=0) * DOWN,
    )


def layers_of(names: Sequence[str], edges: Sequence[Edge]) -> list[list[str]]:
    """Each node one layer after the last of its upstream nodes. An edge that closes a circle does not count."""
    upstream: dict[str, set[str]] = {name: set() for name in names}
    for before, after in edges:
        if before != after:
            upstream[after].add(before)
    layer: dict[str, int] = {}
    waiting = dict.fromkeys(names)
    while waiting:
        ready = [name for name in waiting if upstream[name] <= layer.keys()] or [next(iter(waiting))]
        for name in ready:
            layer[name] = 1 + max((layer[before] for before in upstream[name] if before in layer), default=-1)
            del waiting[name]
    layers: dict[int, list[str]] = defaultdict(list)
    for name in names:
        layers[layer[name]].append(name)
    return [layers[number] for number in sorted(layers)]


def _ordered(layers: list[list[str]], edges: Sequence[Edge]) -> list[list[str]]:
    """The layers with neighbours near each other: each node at the mean place of its neighbours, back and forth."""
    upstream, downstream = defaultdict(list), defaultdict(list)
    for before, after in edges:
        upstream[after].append(before)
        downstream[before].append(after)
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        places: dict[str, float] = {}
        for number in range(len(layers)) if forth else reversed(range(len(layers))):
            layers[number] = _by_neighbours(layers[number], upstream if forth else downstream, places)
            places |= {name: float(place) for place, name in enumerate(layers[number])}
    return layers


def _by_neighbours(layer: list[str], neighbours: Mapping[str, Sequence[str]], places: Mapping[str, float]) -> list[str]:
    """A node without placed neighbours keeps its place."""
    own = {name: float(place) for place, name in enumerate(layer)}

    def mean(name: str) -> float:
        near = [places[other] for other in neighbours.get(name, ()) if other in places]
        return sum(near) / len(near) if near else own[name]

    return sorted(layer, key=mean)


def _path(before: Placed, after: Placed) -> str:
    x1, y1, x2, y2 = before.x + WIDTH, before.y + HEIGHT // 2, after.x, after.y + HEIGHT // 2
    bend = max(abs(x2 - x1) // 2, 30)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
