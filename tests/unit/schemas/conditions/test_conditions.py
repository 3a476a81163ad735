"""When conditions over datasets are met, before and after serialisation."""

from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import A, B, C, decode_spec, spec
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, NOf, PatternRef, dataset_uris, met_by_uris
from tidegate.schemas.dag import encode_spec

STATUSES = list(product((False, True), repeat=3))
THREE = (A, B, C)


def pending(*statuses: bool) -> set[str]:
    return {dataset.uri for dataset, is_pending in zip(THREE, statuses, strict=True) if is_pending}


def stored(condition: Condition) -> Condition:
    """A condition after a journey through the database."""
    schedule = decode_spec(encode_spec(spec("t", schedule=condition))).schedule
    assert schedule is not None
    return schedule


@pytest.mark.parametrize("is_pending", [False, True])
def test_a_dataset_holds_when_an_event_of_it_is_pending(is_pending: bool) -> None:
    assert met_by_uris(A, {A.uri} if is_pending else {B.uri}) is is_pending


@pytest.mark.parametrize(
    ("uris", "is_met"), [({"s://a/1"}, True), ({"t://x", "s://b"}, True), ({"t://x"}, False), (set(), False)]
)
def test_a_pattern_holds_when_an_event_of_a_dataset_is_pending_that_it_matches(uris: set[str], is_met: bool) -> None:
    assert met_by_uris(stored(PatternRef("s://**")), uris) is is_met


@pytest.mark.parametrize("statuses", STATUSES)
def test_all_of_holds_when_every_one_does(statuses: tuple[bool, ...]) -> None:
    assert met_by_uris(stored(AllOf(THREE)), pending(*statuses)) is all(statuses)


@pytest.mark.parametrize("statuses", STATUSES)
def test_any_of_holds_when_one_does(statuses: tuple[bool, ...]) -> None:
    assert met_by_uris(stored(AnyOf(THREE)), pending(*statuses)) is any(statuses)


@pytest.mark.parametrize("statuses", STATUSES)
def test_conditions_nest(statuses: tuple[bool, ...]) -> None:
    a, b, c = statuses

    assert met_by_uris(stored(AllOf((AnyOf((A, B)), C))), pending(*statuses)) is ((a or b) and c)
    assert met_by_uris(stored(AnyOf((AllOf((A, B)), C))), pending(*statuses)) is ((a and b) or c)


CONDITIONS = st.recursive(
    st.sampled_from(THREE),
    lambda inner: st.builds(
        lambda kind, of: kind(tuple(of)),
        st.sampled_from((AllOf, AnyOf, lambda of: NOf((len(of) + 1) // 2, of))),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


def as_python(condition: Condition) -> str:
    match condition:
        case DatasetRef(uri):
            return uri[-1]
        case AllOf(of):
            return f"({' and '.join(map(as_python, of))})"
        case AnyOf(of):
            return f"({' or '.join(map(as_python, of))})"
        case NOf(k, of):
            return f"(({' + '.join(map(as_python, of))}) >= {k})"
        case PatternRef():
            raise AssertionError


@settings(max_examples=200, deadline=None)
@given(condition=CONDITIONS, statuses=st.sampled_from(STATUSES))
def test_a_condition_holds_as_the_same_words_do_in_python(condition: Condition, statuses: tuple[bool, ...]) -> None:
    said = eval(as_python(condition), dict(zip("abc", statuses, strict=True)))  # noqa: S307, our own words

    assert met_by_uris(condition, pending(*statuses)) is said


@settings(max_examples=200, deadline=None)
@given(condition=CONDITIONS)
def test_a_condition_comes_back_from_the_database_as_it_was(condition: Condition) -> None:
    assert stored(condition) == condition


@settings(max_examples=200, deadline=None)
@given(condition=CONDITIONS)
def test_the_leaves_are_the_datasets_that_are_mentioned(condition: Condition) -> None:
    words = as_python(condition).replace("and", "").replace("or", "")

    assert dataset_uris(condition) == {dataset.uri for dataset in THREE if dataset.uri[-1] in words}


@pytest.mark.parametrize("kind", ["all_of", "any_of"])
def test_a_condition_of_nothing_is_refused(kind: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_spec(msgspec.json.encode({"dag_id": "d", "schedule": {"op": kind, "of": []}}))
