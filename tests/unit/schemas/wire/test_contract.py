"""What the topics carry is a contract: every version is kept, and stays readable for its clients.

After a change that is allowed, add what `tidegate topics schema KIND` prints as its next revision, `contract/KIND.v1.N.json`, and
write `contract/asyncapi.json` anew.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.unit.schemas.wire.compatibility import breaks
from tests.unit.schemas.wire.test_envelope import GOLDEN, golden
from tidegate.schemas.wire.contract import ABOUT, KEYS, OUTGOING, asyncapi, json_schema
from tidegate.schemas.wire.event import DATA, INCOMING, Kind, type_of

FOLDER = Path(__file__).parent / "golden" / "contract"
REVISIONS = sorted(FOLDER.glob("*.v*.json"), key=lambda path: (path.name.split(".")[0], int(path.stem.rpartition(".")[2])))


def document() -> dict[str, Any]:
    return asyncapi(lambda kind: f"tidegate.{kind}", "1.0.0")


def kind_of(revision: Path) -> Kind:
    return Kind(revision.name.split(".")[0])


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda path: path.stem)
def test_every_published_revision_stays_compatible(revision: Path) -> None:
    kind = kind_of(revision)

    found = breaks(read(revision), json_schema(kind), incoming=kind in INCOMING)

    assert found == []


@pytest.mark.parametrize("kind", DATA)
def test_todays_schema_is_the_newest_revision(kind: Kind) -> None:
    mine = [path for path in REVISIONS if path.name.startswith(type_of(kind).removeprefix("tidegate."))]

    assert json_schema(kind) == read(mine[-1])


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_event_ever_published_fits_todays_schema(path: Path) -> None:
    kind, _, _, file = golden(path)

    Draft202012Validator(json_schema(kind)).validate(file["data"])


@pytest.mark.parametrize("kind", DATA)
def test_a_schema_is_one(kind: Kind) -> None:
    Draft202012Validator.check_schema(json_schema(kind))


def test_each_topic_is_read_or_written_and_described() -> None:
    assert sorted((*INCOMING, *OUTGOING)) == sorted(Kind)
    assert KEYS.keys() == ABOUT.keys() == set(Kind)
    assert DATA.keys() == set(Kind) - {Kind.DEAD_LETTER}


def test_the_document_is_as_published() -> None:
    assert read(FOLDER / "asyncapi.json") == document()


def test_the_document_has_every_topic_and_what_is_sent_there() -> None:
    found = document()

    addresses = [channel["address"] for channel in found["channels"].values()]

    assert addresses == [f"tidegate.{kind}" for kind in Kind]
    assert {name for name, operation in found["operations"].items() if operation["action"] == "send"} == {
        *(f"send-{kind}" for kind in OUTGOING),
        "send-dataset-updated",
    }


def test_every_reference_of_the_document_leads_somewhere() -> None:
    found = document()

    for reference in references(found):
        part: Any = found
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


def references(part: Any) -> Iterator[str]:
    match part:
        case {"$ref": str(reference)}:
            yield reference
        case dict():
            for each in part.values():
                yield from references(each)
        case list():
            for each in part:
                yield from references(each)
        case _:
            pass


@pytest.mark.parametrize("kind", DATA)
def test_a_message_of_the_document_carries_what_the_schema_says(kind: Kind) -> None:
    components = document()["components"]
    message = components["messages"][kind]
    name = message["payload"]["$ref"].rpartition("/")[2]

    shape, schema = components["schemas"][name], json_schema(kind)

    assert shape["required"] == schema["required"]
    assert list(shape["properties"]) == list(schema["properties"])
    assert message["headers"]["properties"]["ce_type"]["const"] == type_of(kind)


BEFORE = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "maxLength": 10},
        "size": {"type": "integer", "minimum": 0},
        "how": {"enum": ["a", "b"]},
        "part": {"$ref": "#/$defs/Part"},
    },
    "$defs": {"Part": {"type": "object", "properties": {"at": {"type": "string"}}}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """BEFORE with one value set, or taken away by None."""
    after: dict[str, Any] = json.loads(json.dumps(BEFORE))
    part: Any = after
    *way, last = path.split("/")
    for name in way:
        part = part[name]
    part[last] = value
    if value is None:
        del part[last]
    return after


BOTH: Mapping[str, tuple[Any, str]] = {
    "properties/size": (None, "$.size is gone"),
    "properties/size/type": ("string", "$.size: type was integer and is string"),
    "properties/id/pattern": ("x", "$.id: pattern was None and is x"),
    "$defs/Part/properties/at": ({"type": "integer"}, "$.part.at: type was string and is integer"),
}


@pytest.mark.parametrize("incoming", [True, False])
@pytest.mark.parametrize("path", BOTH)
def test_what_breaks_both_ways(path: str, incoming: bool) -> None:
    value, says = BOTH[path]

    assert breaks(BEFORE, changed(path, value), incoming=incoming) == [says]


READERS_ONLY: Mapping[str, tuple[Any, str]] = {
    "required": ([], "$.id is not always there any more"),
    "properties/id/maxLength": (20, "$.id: maxLength was 10 and is 20"),
    "properties/size/minimum": (-1, "$.size: minimum was 0 and is -1"),
    "properties/how/enum": (["a", "b", "c"], "$.how: enum was ['a', 'b'] and is ['a', 'b', 'c']"),
}
WRITERS_ONLY: Mapping[str, tuple[Any, str]] = {
    "required": (["id", "size"], "$.size is needed now"),
    "properties/id/maxLength": (5, "$.id: maxLength was 10 and is 5"),
    "properties/size/minimum": (1, "$.size: minimum was 0 and is 1"),
    "properties/how/enum": (["a"], "$.how: enum was ['a', 'b'] and is ['a']"),
}


@pytest.mark.parametrize(("cases", "incoming"), [(READERS_ONLY, False), (WRITERS_ONLY, True)], ids=["readers", "writers"])
def test_what_breaks_one_way(cases: Mapping[str, tuple[Any, str]], incoming: bool) -> None:
    for path, (value, says) in cases.items():
        after = changed(path, value)

        assert breaks(BEFORE, after, incoming=incoming) == [says]
        assert breaks(BEFORE, after, incoming=not incoming) == []


@pytest.mark.parametrize("incoming", [True, False])
@pytest.mark.parametrize(
    ("path", "value"), [("properties/new", {"type": "string"}), ("title", "T"), ("properties/id/default", "x")]
)
def test_what_breaks_nothing(path: str, value: Any, incoming: bool) -> None:
    assert breaks(BEFORE, changed(path, value), incoming=incoming) == []
