"""The reason of a problem is the same at each parse."""

import pytest

from tidegate.daemon.dagfiles.execute import reason
from tidegate.daemon.dagfiles.message import Limits
from tidegate.schemas.error import DagError

LIMITS = Limits(wall_s=30, cpu_s=20, memory_mb=512, output_mb=4)
FILE = "/dags/daily.py"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (object(), "<object object>"),
        ({"k": object()}, "{'k': <object object>}"),
        (lambda: 0, "<function <lambda>>"),
        ((n for n in (1,)), "<generator object <genexpr>>"),
        ([].append, "<built-in method append of list object>"),
        ("a < b at 5", "'a < b at 5'"),
        ("error at 0x10", "'error at 0x10'"),
    ],
)
def test_a_value_is_shown_without_its_address(value: object, shown: str) -> None:
    error = DagError(f"DAG 'd': conf is not {value!r}")

    assert reason(error, FILE, LIMITS) == f"DAG 'd': conf is not {shown}"


def test_an_exception_of_the_file_and_an_exit_code_are_shown_without_addresses() -> None:
    raised = [ValueError(object()), SystemExit(object()), ModuleNotFoundError(f"no {object()}")]

    assert [" at 0x" in reason(error, FILE, LIMITS) for error in raised] == [False] * 3


def test_an_address_that_is_cut_off_is_left_out() -> None:
    value = [object()]

    texts = [reason(DagError(f"not {value!r:.{length}}; write a list"), FILE, LIMITS) for length in range(len(repr(value)))]

    assert [text for text in texts if "0x" in text] == []
