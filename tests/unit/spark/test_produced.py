"""The dataset events of an attempt: what a task gives its run, and what leaves the runner."""

from collections import UserDict
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy
import pandas
import pytest

from tidegate import Dataset, Run
from tidegate.daemon.spark.runner import event_lines
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.produced import with_events
from tidegate.daemon.spark.runner.results import Results
from tidegate.daemon.spark.runner.task_outcome import success
from tidegate.daemon.spark.spool import Outcome
from tidegate.schemas.run import MAX_PRODUCED_BYTES, MAX_PUBLISHED, RunContext
from tidegate.schemas.wire.event import DatasetUpdated

CONTEXT = RunContext(
    dag_id="d", run_id="r", run_type="manual", run_after=datetime(2013, 1, 1, tzinfo=UTC), params={}, task_id="load"
)
SUCCESS = Outcome(outcome="succeeded", exit_code=0, result=7)
X = Dataset("lake://x")


class LostScalar:
    """A scalar of a library, whose value cannot be read any more."""

    dtype = numpy.dtype("int64")
    ndim = 0

    def item(self) -> int:
        raise RuntimeError("the device is lost")


class LostMapping(UserDict[str, int]):
    def items(self) -> NoReturn:
        raise RuntimeError("the device is lost")


def run_with(*outlets: str) -> Run:
    return Run.of(CONTEXT, outlets)


def test_a_task_fills_in_the_events_of_its_outlets_by_dataset_or_uri() -> None:
    run = run_with("lake://x", "lake://y", "lake://z")
    run.outlets[X].extra["rows"] = 12
    run.outlets["lake://y"].extra.update(day=datetime(2013, 1, 1, tzinfo=UTC))

    outcome = with_events(SUCCESS, run)

    assert (list(run.outlets), outcome.outlets) == (
        ["lake://x", "lake://y", "lake://z"],
        {"lake://x": {"rows": 12}, "lake://y": {"day": "2013-01-01T00:00:00Z"}},
    )
    assert (outcome.outcome, outcome.result, outcome.events) == ("succeeded", 7, None)


def test_scalars_of_numpy_and_pandas_are_as_those_of_python() -> None:
    run = run_with()
    frame = pandas.DataFrame({"delay": [3, 5]})
    extra = {"most": frame.delay.max(), "mean": frame.delay.mean(), "late": frame.delay.gt(4).any(), "of": [numpy.str_("x")]}
    run.publish(X, extra)

    assert with_events(SUCCESS, run).events == (
        DatasetUpdated(uri="lake://x", extra={"most": 5, "mean": 4.0, "late": True, "of": ["x"]}),
    )


def test_a_dataset_that_is_no_outlet_is_refused_with_the_ones_that_are() -> None:
    with pytest.raises(KeyError, match=r"task 'load' has no outlet 'lake://x'; its outlets are: lake://y, lake://z"):
        run_with("lake://y", "lake://z").outlets[X]


def test_a_result_that_is_not_there_is_refused_with_the_reason() -> None:
    run = Run.of(CONTEXT, (), Results({"count": 3}, ["count", "load"]))

    assert (run.results["count"], run.results.get("load"), "load" in run.results) == (3, None, False)
    assert type(copy(run.results)) is dict
    assert success(run.results).result == {"count": 3}
    with pytest.raises(KeyError, match="task 'load' has no result: it returned None or "):
        run.results["load"]
    with pytest.raises(KeyError, match="there is no 'cuont' in results; did you mean count"):
        run.results["cuont"]


def test_a_task_publishes_further_events_in_their_order() -> None:
    run = run_with()
    run.publish(X, {"n": 1})
    run.publish("lake://y")

    outcome = with_events(SUCCESS, run)

    assert outcome.events == (DatasetUpdated(uri="lake://x", extra={"n": 1}), DatasetUpdated(uri="lake://y"))
    assert outcome.outlets is None


def test_the_events_of_one_run_are_not_those_of_another() -> None:
    run_with("lake://x").publish(X)

    assert with_events(SUCCESS, run_with("lake://x")) == SUCCESS


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_an_attempt_that_does_not_succeed_has_no_events(outcome: Any) -> None:
    run = run_with("lake://x")
    run.outlets[X].extra["rows"] = 12
    run.publish(X)

    assert with_events(Outcome(outcome=outcome), run) == Outcome(outcome=outcome)


NESTED: dict[str, Any] = {"a": 1}
for _ in range(64):
    NESTED = {"a": NESTED}


@pytest.mark.parametrize(
    ("uri", "extra", "reason"),
    [
        pytest.param(
            "lake://x",
            {"n": 1, "parts": [{"rows": object()}]},
            "in its extra, `parts[0].rows` is of type object, which JSON does not have: write int(…), float(…), str(…) or",
            id="no JSON",
        ),
        pytest.param("lake://x", {"all": numpy.array([1])}, "in its extra, `all` is of type ndarray, ", id="array"),
        pytest.param("lake://x", {"at": pandas.Timestamp("2013-01-01")}, "in its extra, `at` is of type Timestamp, ", id="time"),
        pytest.param(
            "lake://x", {"at": numpy.datetime64(1, "ns")}, "in its extra, `at` is of type datetime64, ", id="nanoseconds"
        ),
        pytest.param(
            "lake://x", {"n": float("inf")}, "in its extra, `n` is inf, which JSON does not have: write None", id="infinity"
        ),
        pytest.param("lake://x", {"n": numpy.float64("nan")}, "in its extra, `n` is nan, which JSON does not have", id="NaN"),
        pytest.param(
            "lake://x",
            {"n": 1, "parts": [{"rows": LostScalar()}]},
            "in its extra, `parts[0].rows` cannot be written as JSON: RuntimeError: the device is lost",
            id="a scalar that raises",
        ),
        pytest.param(
            "lake://x",
            {"n": 1, "parts": LostMapping(rows=1)},
            "in its extra, `parts` cannot be written as JSON: RuntimeError: the device is lost",
            id="an object that raises",
        ),
        pytest.param(
            "lake://x", {"a": "\udcff"}, "in its extra, `a` cannot be written as JSON: UnicodeEncodeError: ", id="surrogate"
        ),
        pytest.param("lake://x", {"a": "\0"}, "a NUL character (\\u0000), which cannot be stored", id="NUL"),
        pytest.param("lake://x", NESTED, "nested deeper than 64 levels", id="deep"),
        pytest.param("lake://x", {"tidegate": 1}, "the key 'tidegate' of its extra is set by Tidegate", id="reserved"),
        pytest.param("no uri", {}, "a URI is 1 to 2048 printable ASCII characters without spaces", id="no URI"),
    ],
)
def test_an_event_that_no_daemon_can_read_fails_the_attempt(uri: str, extra: dict[str, Any], reason: str) -> None:
    run = run_with()
    run.publish(uri, extra)

    outcome = with_events(SUCCESS, run)

    assert (outcome.outcome, outcome.result, outcome.events) == ("failed", None, None)
    assert outcome.reason.startswith(f"the event of dataset {uri!r} cannot be published: {reason}")


def test_a_result_of_which_a_part_raises_is_dropped_and_the_log_names_the_part(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="tidegate"):
        outcome = success({"parts": [{"rows": LostScalar()}]})

    assert (outcome.outcome, outcome.result) == ("succeeded", None)
    assert "`parts[0].rows` cannot be written as JSON: RuntimeError: the device is lost" in caplog.text


def test_the_number_of_events_is_limited() -> None:
    run = run_with()
    for _ in range(MAX_PUBLISHED + 1):
        run.publish(X)

    assert with_events(SUCCESS, run).reason == "the task published 1001 events; an attempt publishes at most 1000"


def test_the_size_of_all_events_together_is_limited() -> None:
    run = run_with("lake://x")
    run.outlets[X].extra["text"] = "x" * (MAX_PRODUCED_BYTES // 2)
    run.publish(X, {"text": "x" * (MAX_PRODUCED_BYTES // 2)})

    outcome = with_events(SUCCESS, run)

    assert outcome.reason.endswith(
        f"an attempt has at most {MAX_PRODUCED_BYTES}: write the data to storage and give its location"
    )


def read(tmp_path: Path, text: str, *outlets: str) -> Run:
    run, path = run_with(*outlets), tmp_path / "events.jsonl"
    path.write_text(text)
    event_lines.read(path, run)
    return run


def test_a_program_gives_its_events_in_lines_of_a_file(tmp_path: Path) -> None:
    lines = (
        '{"outlet": "lake://x", "extra": {"rows": 11, "day": "2013-01-01"}}\n\n'
        '{"outlet": "lake://x", "extra": {"rows": 12}}\n'
        '{"publish": "lake://y", "extra": {"n": 1}}\n'
        '{"publish": "lake://y"}'
    )

    run = read(tmp_path, lines, "lake://x")

    assert run.outlets[X].extra == {"rows": 12, "day": "2013-01-01"}
    assert run.published == [("lake://y", {"n": 1}), ("lake://y", {})]


def test_a_program_need_not_say_anything(tmp_path: Path) -> None:
    run = run_with("lake://x")

    event_lines.read(tmp_path / "events.jsonl", run)

    assert with_events(SUCCESS, run) == SUCCESS


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("rows=3", f"line 2 of $TIDEGATE_EVENTS is not {event_lines.SHAPE}: JSON is malformed"),
        ('{"uri": "lake://x"}', f"line 2 of $TIDEGATE_EVENTS is not {event_lines.SHAPE}: Object contains unknown field `uri`"),
        ('{"extra": {}}', f"line 2 of $TIDEGATE_EVENTS is not {event_lines.SHAPE}: it needs one of `outlet` and `publish`"),
        ('{"outlet": "lake://y"}', "line 2 of $TIDEGATE_EVENTS: task 'load' has no outlet 'lake://y'; its outlets are: lake://x"),
    ],
)
def test_an_invalid_line_is_named(line: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError) as refused:
        read(tmp_path, f'{{"publish": "lake://p"}}\n{line}\n', "lake://x")

    assert str(refused.value).startswith(reason)


def test_a_file_that_is_too_large_or_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"the file of \$TIDEGATE_EVENTS cannot be read: .* has more than \d+ bytes"):
        read(tmp_path, "x" * (event_lines.MAX_FILE_BYTES + 1))
    (tmp_path / "events.jsonl").unlink()
    (tmp_path / "events.jsonl").mkdir()

    with pytest.raises(TaskError, match=r"the file of \$TIDEGATE_EVENTS cannot be read: .* is not a regular file"):
        event_lines.read(tmp_path / "events.jsonl", run_with())
