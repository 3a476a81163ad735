"""A burst of equal faults is one entry in the log, and so is a fault that stays."""

import pytest
from structlog.testing import capture_logs

from tidegate.daemon.fault_log import EVERY_S, MOST_COMPONENTS, FaultLog, LoggedStates, RepeatedFaults


def fault(number: int, kind: type[Exception] = ValueError) -> Exception:
    with pytest.raises(kind) as caught:
        raise kind(f"record {number}")
    return caught.value


def test_equal_faults_are_logged_once_a_minute_with_their_number() -> None:
    now = 0.0
    faults = FaultLog(lambda: now)

    with capture_logs() as logs:
        for number in range(1000):
            faults.report("record_not_decoded", fault(number), offset=number)
        faults.report("record_not_decoded", fault(1, KeyError), offset=1)
        now += EVERY_S
        faults.report("record_not_decoded", fault(1000), offset=1000)

    assert [(line["offset"], line["error"], line["not_logged_before"]) for line in logs] == [
        (0, "ValueError: record 0", 0),
        (1, "KeyError: 'record 1'", 0),
        (1000, "ValueError: record 1000", 999),
    ]
    assert all(line["exc_info"] for line in logs)


def test_an_error_that_was_never_raised_is_logged() -> None:
    with capture_logs() as logs:
        FaultLog().report("kill_failed", ValueError("x"))

    assert [line["event"] for line in logs] == ["kill_failed"]


def test_a_fault_that_stays_is_logged_once_until_its_text_changes_or_it_ends() -> None:
    faults = RepeatedFaults("kill_failed")

    with capture_logs() as logs:
        for text in ("gone", "gone", "denied", "denied"):
            faults.report("a", ValueError(text), attempt="a")
        faults.report("b", ValueError("denied"), attempt="b")
        faults.end("a")
        faults.end("never failed")
        faults.report("a", ValueError("denied"), attempt="a")

    said = [(line["event"], line["attempt"], line["error"]) for line in logs]
    denied = ("kill_failed", "a", "ValueError: denied")
    assert said == [("kill_failed", "a", "ValueError: gone"), denied, ("kill_failed", "b", "ValueError: denied"), denied]
    assert all(line["exc_info"] for line in logs)


def test_faults_without_an_end_are_forgotten() -> None:
    faults = RepeatedFaults("kill_failed")
    with capture_logs() as logs:
        for component in range(MOST_COMPONENTS + 1):
            faults.report(component, ValueError("gone"), attempt=component)
        faults.report(MOST_COMPONENTS, ValueError("gone"), attempt=MOST_COMPONENTS)
        faults.report(0, ValueError("gone"), attempt=0)

    assert len(logs) == MOST_COMPONENTS + 2


def test_a_state_begins_again_after_it_has_ended() -> None:
    states = LoggedStates()

    begun = [states.begun("pool_missing", holding) for holding in (["a"], ["b", "a"], ["b"], ["a", "b"])]

    assert begun == [["a"], ["b"], [], ["a"]]
    assert states.begun("dag_folder_unreadable", ["a"]) == ["a"]
