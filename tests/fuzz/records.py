"""Records as producers write them, and nearly so: CloudEvents in both modes, bare data, OpenLineage run events."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.fuzz.values import NUMBERS, RARE_TEXTS, TIMES, UNSTORABLE, VALUES, damaged, mostly
from tidegate.schemas.wire.event import INCOMING, Kind

KINDS = sorted(INCOMING)
ATTEMPTS = tuple(UUID(int=number) for number in range(1, 5))
URIS = ("s://a", "s://b", "s://t/1", "s://t/x/1")
OUTCOMES = ("succeeded", "failed", "skipped", "killed", "lost")


class Sent(NamedTuple):
    """A record as a producer writes it."""

    headers: Sequence[tuple[str, bytes]]
    value: bytes | None


def mapping(needed: Mapping[str, SearchStrategy[Any]], **optional: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict(needed), optional=optional)


TEXTS = mostly(RARE_TEXTS | st.text(max_size=12), UNSTORABLE, 40)
NAMES = mostly(
    st.sampled_from(["file", "s3://lake", "s3://lake/", "/data", "a b", "ü", "a/b", "://", ":"]) | RARE_TEXTS,
    UNSTORABLE | st.sampled_from(["x" * 2048, "", "x" * 2049]),
    20,
)
IDS = mostly(
    st.sampled_from(["1", "2", "x" * 512, "ü" * 512, "🙂" * 256]) | RARE_TEXTS,
    UNSTORABLE | st.sampled_from(["x" * 513, "ü" * 513, "🙂" * 257, "kafka:0", ""]),
)

EXTRAS = st.dictionaries(st.sampled_from(["n", "kind", "rows"]) | TEXTS, VALUES | NUMBERS, max_size=4)
UPDATES = mapping(
    {"uri": mostly(st.sampled_from(URIS), st.sampled_from(["s://" + "x" * 2044, "s://" + "x" * 2045]))}, extra=EXTRAS
)
FILES = mapping({"path": st.sampled_from(["a.py", "../a.py", "/etc/passwd", "a" * 4096, "a" * 4097]) | TEXTS})
RESULTS = VALUES | NUMBERS | st.lists(VALUES, max_size=3) | st.sampled_from([["x"] * 10_001, "x" * 70_000])
TOKENS = mostly(st.just("right"), st.sampled_from(["", "x" * 64, "x" * 65]))
ENDS = mapping(
    {"submission_id": st.sampled_from([str(id_) for id_ in ATTEMPTS]), "outcome": st.sampled_from(OUTCOMES), "token": TOKENS},
    reason=TEXTS | st.just("x" * 10_001),
    exit_code=st.sampled_from([0, 137, -(2**31), 2**31 - 1, 2**31]) | st.none(),
    started_at=TIMES,
    finished_at=TIMES,
    follow=st.lists(st.sampled_from(["b", "c", "d", "nothing"]) | TEXTS, max_size=3),
    result=RESULTS,
)
LINKS = mapping({"identifiers": st.lists(mapping({"namespace": NAMES, "name": NAMES}, type=TEXTS), max_size=3)})
FACETS = mapping(
    {},
    version=mapping({"datasetVersion": TEXTS | st.sampled_from(["x" * 512, "x" * 513]) | NUMBERS}),
    lifecycleStateChange=mapping({"lifecycleStateChange": st.sampled_from(["CREATE", "DROP", "OVERWRITE", ""])}),
    symlinks=LINKS,
    schema=VALUES,
)
STATISTICS = mapping({}, rowCount=NUMBERS, size=NUMBERS, fileCount=NUMBERS)
OUTPUTS = mapping(
    {"namespace": NAMES, "name": NAMES},
    facets=FACETS | st.none(),
    outputFacets=mapping({}, outputStatistics=STATISTICS | st.none()) | st.none(),
)
PARENT = mapping({"run": mapping({"runId": TEXTS}), "job": mapping({"namespace": NAMES, "name": NAMES})})
NOMINAL = mapping({"nominalStartTime": TIMES}, nominalEndTime=TIMES)
LINEAGE = mapping(
    {
        "eventType": st.sampled_from(["START", "RUNNING", "COMPLETE", "COMPLETE", "COMPLETE", "ABORT", "FAIL", "OTHER"]),
        "eventTime": TIMES,
        "run": mapping({"runId": st.just("r") | IDS}, facets=mapping({}, parent=PARENT, nominalTime=NOMINAL) | st.none()),
        "job": mapping({"namespace": NAMES, "name": NAMES}, facets=VALUES),
    },
    outputs=st.lists(OUTPUTS, max_size=3) | st.none(),
    inputs=st.lists(OUTPUTS, max_size=2),
    producer=TEXTS,
    schemaURL=st.just("https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent") | TEXTS,
)
DATA: Mapping[Kind, SearchStrategy[Any]] = {
    Kind.DAG_FILE_CHANGED: FILES,
    Kind.DATASET_UPDATED: UPDATES | UPDATES | LINEAGE,
    Kind.TASK_FINISHED: ENDS,
}
OBJECTS = st.one_of(*DATA.values())

SOURCES = st.just("p") | IDS
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["ce_id", "ce_source", "ce_time", "ce_type", "ce_specversion", "content-type", "tidegate_replay", "ü"]),
        st.binary(max_size=20) | TEXTS.map(lambda text: text.encode(errors="surrogatepass")) | TIMES.map(str.encode),
    ),
    max_size=3,
)


@st.composite
def attributes(draw: DrawFn, kind: Kind) -> dict[str, str]:
    """The attributes of a CloudEvents event, mostly valid."""
    found = {"specversion": "1.0", "type": f"tidegate.{kind}.v1", "id": draw(IDS), "source": draw(SOURCES), "time": draw(TIMES)}
    wrong = mapping({}, specversion=st.sampled_from(["1.1", "2.0", ""]), type=st.sampled_from(["x", f"tidegate.{kind}.v2", ""]))
    changed = draw(mostly(st.just({}), wrong))
    left_out = draw(mostly(st.just(()) | st.just(("id", "source")), st.sets(st.sampled_from(["id", "source", "time", "type"]))))
    return {name: value for name, value in {**found, **changed}.items() if name not in left_out}


@st.composite
def records(draw: DrawFn, kind: Kind) -> Sent:
    data = draw(damaged(DATA[kind]))
    mode = draw(mostly(st.sampled_from(["binary", "structured", "base64", "bare"]), st.sampled_from(["torn", "junk"])))
    if mode == "junk":
        return Sent(draw(HEADERS), draw(st.binary(max_size=60) | st.none() | VALUES.map(msgspec.json.encode)))
    body = msgspec.json.encode(data)
    if mode == "binary":
        extra = draw(mostly(st.just([]), HEADERS))
        named = draw(attributes(kind)).items()
        return Sent([*((f"ce_{name}", value.encode(errors="surrogatepass")) for name, value in named), *extra], body)
    if mode in ("structured", "base64"):
        inner = {"data": data} if mode == "structured" else {"data_base64": b64encode(body).decode()}
        whole = draw(mostly(attributes(kind).map(_readable), damaged(attributes(kind).map(_readable))))
        return Sent([], msgspec.json.encode({**whole, **inner} if isinstance(whole, dict) else whole))
    if mode == "torn":
        at = draw(st.integers(0, len(body)))
        return Sent([], body[:at] + draw(st.binary(max_size=4)))
    return Sent(draw(mostly(st.just([]), HEADERS)), body)


def _readable(attributes: Mapping[str, str]) -> dict[str, Any]:
    """A lone surrogate has no JSON of msgspec's: it is written as its escape."""
    return {name: value if _is_unicode(value) else msgspec.Raw(b'"\\ud800"') for name, value in attributes.items()}


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
