"""The conf of a run against the parameters of its DAG."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from tidegate.schemas.authoring.params import param_specs
from tidegate.schemas.json_schema import CHEAP, conf_findings, is_cheap, reference_problem, schema_problem, value_problem
from tidegate.schemas.params import Params, ParamSpec, conf_with_defaults, in_order, in_stored_order

PARAMS = Params({"day": ParamSpec(schema={"type": "integer"}), "mode": ParamSpec(default="fast")})
OTHERS = "params are day, mode, and only a DAG with extra_params=True takes other keys"
METADATA = "http://169.254.169.254/latest/meta-data"


def fits(params: Params, conf: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = conf_findings(params, conf_with_defaults(params, conf))
    return [(finding.pointer, finding.problem, finding.remedy) for finding in found]


@pytest.mark.parametrize(
    ("conf", "findings"),
    [
        pytest.param({}, [("/day", "param 'day' has no default and must be given", "")], id="missing"),
        pytest.param(
            {"day": "one"},
            [("/day", "param 'day': 'one' is not of type 'integer'", "write a value of the type integer")],
            id="of another type",
        ),
        pytest.param({"day": 1}, [], id="valid"),
        pytest.param({"day": 1, "mod": 1}, [("/mod", "there is no param 'mod'", "did you mean mode?")], id="a misspelt name"),
        pytest.param({"day": 1, 7: 2}, [("/7", "there is no param '7'", OTHERS)], id="no name that is near"),
        pytest.param(
            {"y/z": 2, "x~": 2},
            [
                ("/x~0", "there is no param 'x~'", OTHERS),
                ("/y~1z", "there is no param 'y/z'", OTHERS),
                ("/day", "param 'day' has no default and must be given", ""),
            ],
            id="all of them",
        ),
    ],
)
def test_a_conf_fits_the_params_or_each_value_says_why_not(conf: dict[str, Any], findings: list[tuple[str, str, str]]) -> None:
    assert fits(PARAMS, conf) == findings


def test_a_finding_leads_to_the_part_of_a_value_and_a_missing_param_says_what_it_is() -> None:
    items = {"items": {"properties": {"a/b": {"type": ["integer", "null"]}}}}
    day = ParamSpec(schema={"description": "the day of the flights"}, position=1)
    params = Params({"day": day, "rows": ParamSpec(schema=items, position=0)})

    assert fits(params, {"rows": [{}, {"a/b": "x"}]}) == [
        ("/rows/1/a~1b", "param 'rows': 'x' is not of type 'integer', 'null'", "write a value of the type integer or null"),
        ("/day", "param 'day' has no default and must be given", "it is: the day of the flights"),
    ]


@pytest.mark.parametrize(
    ("schema", "value", "remedy"),
    [
        ({"enum": ["a", 1]}, "b", 'write one of ["a",1]'),
        ({"minimum": 3}, 2, "write 3 or more"),
        ({"exclusiveMaximum": 3}, 3, "write less than 3"),
        ({"pattern": "^a"}, "b", "write a text that matches ^a"),
        ({"format": "date"}, "b", "write a text of the format date"),
        ({"uniqueItems": True}, [1, 1], ""),
        ({"$ref": "#"}, 1, "correct the schema in the DAG file"),
    ],
)
def test_a_finding_says_what_to_write(schema: dict[str, Any], value: Any, remedy: str) -> None:
    ((_, _, found),) = fits(Params({"day": ParamSpec(schema=schema)}), {"day": value})

    assert found == remedy


def test_findings_are_bounded() -> None:
    assert len(fits(PARAMS, {f"k{number}": 1 for number in range(100)})) == 20


@pytest.mark.parametrize("params", [Params(), Params(extra=True), Params({"day": ParamSpec(default=1)}, extra=True)])
def test_a_dag_without_params_or_with_extra_ones_takes_any_key(params: Params) -> None:
    assert fits(params, {"dya": 1}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"type": "string"}}, "properties": {"b": {"$ref": "#/$defs/a"}}},
        {"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"},
        {"$id": "https://example.org/s", "$defs": {"a": {"$id": "a", "$ref": "s"}}, "$ref": "a"},
        {"properties": {"$ref": {"type": "string"}}, "enum": [{"$ref": METADATA}], "const": {"$ref": METADATA}},
        {"items": True, "additionalProperties": {"$ref": "#"}},
    ],
)
def test_references_within_a_schema_are_accepted(schema: dict[str, Any]) -> None:
    assert reference_problem(schema) is None


@pytest.mark.parametrize("reference", [METADATA, "file:///etc/passwd", "other", "#/$defs/b", "#b", "#/allOf/a", "http://["])
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_other_references_are_named(reference: str, keyword: str) -> None:
    schema = {"$defs": {"a": {}}, "allOf": [True, {"properties": {"p": {"items": {keyword: reference}}}}]}

    assert reference_problem(schema) == (
        f"its schema refers to {reference!r}, which is no part of it; write the definition under $defs, and refer to #/$defs/NAME"
    )


def test_a_long_reference_is_cut() -> None:
    problem = reference_problem({"$ref": "#/" + "x" * 300})

    assert problem is not None
    assert problem.startswith(f"its schema refers to '#/{'x' * 197}, which is no part of it; ")


@pytest.mark.parametrize(
    ("schema", "problem"), [({"type": "integer"}, None), ({"type": "day"}, "'day' is not valid under any of the given schemas")]
)
def test_a_schema_is_valid_or_says_why_not(schema: dict[str, Any], problem: str | None) -> None:
    assert schema_problem(schema) == problem


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        pytest.param({"maximum": 3}, 3, None, id="it fits"),
        pytest.param({"multipleOf": 2, "maximum": 1}, 3, "3 is greater than the maximum of 1", id="the first text of two"),
        pytest.param({"format": "date"}, "today", "'today' is not a 'date'", id="formats count"),
        pytest.param({"const": "x" * 400}, 1, "'" + "x" * 299, id="a long text is cut"),
    ],
)
def test_a_value_fits_a_schema_or_says_why_not(schema: dict[str, Any], value: Any, problem: str | None) -> None:
    assert value_problem(ParamSpec(schema=schema), value) == problem


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # with which jsonschema fetches
@pytest.mark.parametrize("reference", [METADATA, "file://{}/schema.json"], ids=["of another host", "a file that there is"])
def test_nothing_is_fetched_for_a_reference_that_was_not_checked(reference: str, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text("{}")

    problem = value_problem(ParamSpec(schema={"$ref": reference.format(tmp_path)}), 1)

    assert problem is not None
    assert problem.startswith("its schema cannot be evaluated: ")


def test_a_schema_that_only_refers_to_itself_has_no_values() -> None:
    assert value_problem(ParamSpec(schema={"$ref": "#"}), 1) == "its schema refers to itself without an end"


def test_a_number_beyond_all_computation_does_not_fit() -> None:
    problem = value_problem(ParamSpec(schema={"multipleOf": 0.1}), 10**400)

    assert problem is not None
    assert problem.startswith("its schema cannot be evaluated: OverflowError: ")


@pytest.mark.parametrize(
    ("schema", "value", "cheap"),
    [
        ({}, ["any"], True),
        ({"type": "string", "format": "date", "title": "Day"}, "2013-01-01", True),
        ({"type": "integer", "minimum": 1}, 3, True),
        (dict.fromkeys(CHEAP, 1), 3, True),
        ({"enum": [["a"], None]}, None, True),
        ({"enum": [["a"], None]}, ["a"], False),
        ({"type": "string"}, "x" * 10_000, True),
        ({"type": "string"}, "x" * 10_001, False),
        ({"pattern": "^(a+)+$"}, "a", False),
        ({"format": "regex"}, "a", False),
        ({"anyOf": [{"type": "string"}]}, "a", False),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, 1, False),
    ],
)
def test_only_checks_of_single_values_without_patterns_and_parts_are_cheap(
    schema: dict[str, Any], value: Any, *, cheap: bool
) -> None:
    assert is_cheap(schema, value) == cheap


@pytest.mark.parametrize(
    ("declared", "positions"),
    [
        pytest.param(["a", "b", "aa"], [UNSET, UNSET, UNSET], id="as Postgres keeps them"),
        pytest.param(["rows", "day", "b"], [0, 1, 2], id="in another order"),
        pytest.param([], [], id="none"),
    ],
)
def test_params_keep_the_order_of_their_file(declared: list[str], positions: list[Any]) -> None:
    specs = param_specs("DAG 'd'", dict.fromkeys(declared, 1), scheduled=False)
    stored = {name: specs[name] for name in in_stored_order(specs)}

    assert [spec.position for spec in specs.values()] == positions
    assert list(in_order(stored)) == declared
