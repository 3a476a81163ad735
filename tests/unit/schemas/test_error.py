"""Errors: which DAG is at fault, and what their messages say."""

import pytest

from tidegate.schemas.error import (
    DagError,
    DagFaultError,
    Faults,
    FilterError,
    NotFoundError,
    RequestError,
    UnavailableError,
    blame,
    described,
    did_you_mean,
)


def fault(of: str = "d", reason: str = "no row") -> DagFaultError:
    return DagFaultError({of: reason})


def test_a_fault_names_each_dag_with_its_reason() -> None:
    error = DagFaultError({"d": "no row", "e": "no version"})

    assert str(error) == "DAG 'd': no row; DAG 'e': no version"
    assert error.reasons == {"d": "no row", "e": "no version"}


@pytest.mark.parametrize(
    ("error", "reasons"),
    [
        pytest.param(KeyError("row"), {"d": "a decision failed: KeyError: 'row'"}, id="any exception is a fault of the DAG"),
        pytest.param(fault("e"), {"e": "no row"}, id="a fault of another DAG stays that"),
    ],
)
def test_an_exception_is_blamed_on_the_dag_that_was_decided_about(error: Exception, reasons: dict[str, str]) -> None:
    with pytest.raises(DagFaultError) as raised, blame("d"):
        raise error

    assert raised.value.reasons == reasons
    assert error in (raised.value, raised.value.__cause__)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=["a stop of the process", "no memory"])
def test_a_fault_of_the_process_is_blamed_on_no_dag(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, Faults() as faults, faults.of("d"):
        raise error

    assert raised.value is error


def test_without_an_exception_no_dag_is_at_fault() -> None:
    with Faults() as faults, faults.of("d"), blame("d"):
        pass


def decide(*dags: tuple[str, Exception | None], last: Exception | None = None, decided: list[str] | None = None) -> None:
    """Decide about these DAGs, each with its error, if any; `last` is raised after all."""
    with Faults() as faults:
        for dag_id, error in dags:
            with faults.of(dag_id):
                if decided is not None:
                    decided.append(dag_id)
                if error:
                    raise error
        if last:
            raise last


def test_all_dags_are_decided_about_before_their_faults_are_raised() -> None:
    """Of two faults of a DAG the first counts."""
    decided: list[str] = []
    with pytest.raises(DagFaultError) as raised:
        decide(("d", KeyError("first")), ("e", None), ("f", fault("f")), ("d", ValueError("second")), decided=decided)

    assert decided == ["d", "e", "f", "d"]
    assert raised.value.reasons == {"d": "a decision failed: KeyError: 'first'", "f": "no row"}
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("last", "raises"),
    [(fault("e"), {"d": "no row", "e": "no row"}), (fault("d", "another"), {"d": "no row"})],
    ids=["of another DAG", "of the same DAG"],
)
def test_a_fault_at_the_end_joins_the_others(last: DagFaultError, raises: dict[str, str]) -> None:
    with pytest.raises(DagFaultError) as raised:
        decide(("d", fault()), last=last)

    assert raised.value.reasons == raises


def test_any_other_error_at_the_end_is_raised_itself() -> None:
    with pytest.raises(UnavailableError, match="gone"):
        decide(("d", fault()), last=UnavailableError("gone"))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyError("row"), "KeyError: 'row'"),
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (ValueError("a\0b\ud800"), r"ValueError: a\0b\ud800"),
        (ValueError("x" * 300), "ValueError: " + "x" * 288),
    ],
)
def test_an_exception_is_described_in_one_line_that_can_be_stored(error: Exception, line: str) -> None:
    assert described(error) == line


@pytest.mark.parametrize(
    ("name", "hint"),
    [("lodd", "; did you mean load?"), ("loads", "; did you mean load?"), ("check", ""), ("", "")],
)
def test_the_nearest_known_name_is_suggested(name: str, hint: str) -> None:
    assert did_you_mean(name, ["report", "load", "loader"]) == hint


def test_an_error_says_what_it_is_about() -> None:
    refused, missing = RequestError("no"), NotFoundError("no such run", reason="no_such_run", field="run_id")
    wrong = FilterError("n >> 1", 4, "a number", "'>'", "; write n > 1")

    assert (str(refused), refused.reason, refused.field) == ("no", "invalid", "")
    assert (str(missing), missing.reason, missing.field) == ("no such run", "no_such_run", "run_id")
    assert (UnavailableError("gone").server, UnavailableError("gone", server="Postgres").server) == ("Kafka", "Postgres")
    assert (str(DagError("wrong", ("a.py", 3))), DagError("wrong", ("a.py", 3)).place) == ("wrong", ("a.py", 3))
    assert DagError("wrong").place is None
    assert (str(wrong), wrong.character) == ("at character 4 of 'n >> 1': expected a number, found '>'; write n > 1", 4)
    assert str(FilterError("x" * 300, 1, "a", "b")) == f"at character 1 of '{'x' * 199}: expected a, found b"
