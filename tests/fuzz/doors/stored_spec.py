"""A row of `dag_version` that another program wrote: readable, or refused by the one error that holds the DAG."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz.doors.door import NOW, Door, check
from tests.fuzz.values import SCALARS, TIMES, VALUES
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.graph import bounds_of, graph_of
from tidegate.schemas.timetable.tick import next_tick

SPEC_PARTS: Mapping[str, SearchStrategy[Any]] = {
    "dag_id": st.text(max_size=10),
    "schedule": st.fixed_dictionaries(
        {"op": st.sampled_from(["dataset", "pattern", "all_of", "any_of", "n_of"]), "uri": st.just("s://a")}
    )
    | VALUES,
    "timetable": st.fixed_dictionaries(
        {"type": st.sampled_from(["cron", "every", "once", "continuous", "dates", "Cron", "Every"])},
        optional={
            "expressions": st.lists(
                st.sampled_from(["* * * * *", "0 0 30 2 *", "99 99", "@daily", "0 0 1 1 *", "*/7 * * * * *"]), max_size=2
            ),
            "timezone": st.sampled_from(["UTC", "Mars/Base", "Europe/Zurich", "../etc/passwd", "a\x00"]),
            "seconds": SCALARS,
            "months": SCALARS,
            "dates": st.lists(TIMES, max_size=2),
            "interval_s": SCALARS,
        },
    )
    | VALUES,
    "tasks": st.lists(
        st.fixed_dictionaries({"kind": st.sampled_from(["empty", "command", "sql"]), "task_id": st.text(max_size=6)}), max_size=3
    )
    | VALUES,
    "start_date": TIMES,
    "end_date": TIMES,
    "max_active_runs": SCALARS,
    "timing": VALUES,
    "params": VALUES,
    "missed": st.sampled_from(["all", "latest", "x"]),
    "surprise": SCALARS,
}


def enter(given: tuple[Mapping[str, Any], datetime], _: Path) -> None:
    parts, now = given
    try:
        spec = msgspec.convert(parts, DagSpec)
    except msgspec.ValidationError:
        return
    try:
        graph = graph_of(1, spec)
        if graph.timetable is not None:
            next_tick(graph.timetable, None, bounds_of(graph, now - timedelta(days=1)), now)
    except ValueError as error:
        check(str(error) != "")


INPUTS = st.tuples(
    st.fixed_dictionaries({}, optional=dict(SPEC_PARTS)),
    st.integers(-70 * 365, 170 * 365).map(lambda days: NOW + timedelta(days=days)),
)
DOOR = Door(INPUTS, enter, share=40)
