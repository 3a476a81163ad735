"""Which runs a DAG gets: the decisions of a daemon over rows in memory, on a clock of its own."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import count

import msgspec

from tidegate.handlers.runs.create import create, queued_run
from tidegate.handlers.runs.run_ids import manual_run_id
from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.next_runs import RunEnd, schedule_after_ends, schedule_next_runs
from tidegate.handlers.scheduling.timetable import upcoming_tick
from tidegate.handlers.scheduling.wakeup import next_wakeup
from tidegate.schemas.authoring.trial import Event
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, CountFailures, DiscardEvents, SetPaused, UpdateSchedule
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.explain.reasons import Debouncing, InputsMissing, OutsideWindow, RateLimited, Reason
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.time_range import LATEST
from tidegate.schemas.timetable.spec import Cron, Every
from tidegate.schemas.timetable.tick import INSTANT, Tick, manual_interval
from tidegate.schemas.timetable.tick_times import Grid
from tidegate.schemas.view import DagView, PendingEvent

RESERVED = 16
"""Ids of runs for one decision."""

MAX_WAKEUPS = 1000
"""After the last event, the clock visits the DAG as often as this at most."""

Play = Callable[[InsertRun, Sequence[PendingEvent]], RunState]
"""Plays a run that consumes these events to its end, on a clock of the run: other runs do not wait for its retries."""


class Scheduler:
    """The row of the DAG, and its clock. `play` is called for each run as it starts."""

    def __init__(self, graph: Graph, now: datetime, play: Play) -> None:
        self._ids = count(1)
        self._play = play
        self.now = now
        self.started = 0
        self.discarded: list[tuple[PendingEvent, str]] = []
        self._dag = DagView(graph=graph, is_paused=False, is_stale=False, next_run_id=0, running=0, queued=0, timed_since=now)

    def request(self, conf: dict[str, object], logical_date: datetime | None) -> None:
        """Start a manual run."""
        graph, tick = self._dag.graph, None
        if logical_date is not None:
            tick = Tick(logical_date, *manual_interval(graph.timetable, logical_date), self.now)
        run = queued_run(next(self._ids), graph, manual_run_id(self.now), RunType.MANUAL, self.now, tick=tick)
        self._apply(create(run, conf, graph, self.now, started=True))

    def deliver(self, events: Sequence[Event]) -> None:
        """Let the events arrive, and time pass until nothing more can happen, or without events until the first run."""
        start = self.now
        for number, event in enumerate(sorted(events, key=lambda event: event.after), start=1):
            self._pass_until(start + event.after)
            self._arrive(event, number)
        if not events:
            self._decide()
        for _ in range(MAX_WAKEUPS):
            if self._dag.due_at is None or (self.started and not self._dag.pending):
                break
            self._wake(self._dag.due_at, LATEST)

    def waits_for(self) -> str:
        """The wait of the next run, in words. Only failed runs pause the DAG of a test."""
        if self._dag.is_paused:
            return f"an unpause: {self._dag.failed_runs} runs failed in a row"
        result = condition_result(self._dag, self.now) if self._dag.graph.schedule is not None else None
        return result.text if isinstance(result, Reason) else "its next time"

    def _pass_until(self, at: datetime) -> None:
        before = None
        while self._dag.due_at is not None and self._dag.due_at < at and self._dag != before:
            before = self._dag  # a DAG that a wake leaves as it was waits for an event
            self._wake(self._dag.due_at, at)
        self.now = at

    def _wake(self, at: datetime, until: datetime) -> None:
        """Decide at a time; of a condition that is not met by cron, at the last tick before `until`."""
        self.now = max(self.now, at)
        self._pass_ticks(until)
        self._decide()

    def _pass_ticks(self, until: datetime) -> None:
        """Take the ticks that make no run in one step: there are half a million minutes in a year."""
        graph = self._dag.graph
        if not graph.requires_both or not isinstance(graph.timetable, Cron | Every):
            return
        until = self._unmet_until(until)
        with_latest = msgspec.structs.replace(graph, bounds=msgspec.structs.replace(graph.bounds, missed="latest"))
        tick = upcoming_tick(msgspec.structs.replace(self._dag, graph=with_latest), self._in_time(until - INSTANT))
        if tick is not None and self.now < tick.run_after < until:
            self._dag = msgspec.structs.replace(self._dag, last_tick=tick)
            self.now = tick.run_after

    def _in_time(self, at: datetime) -> datetime:
        """A time up to `at` at which a decision is not late: an interval counts on from a late one. Months are few."""
        match self._dag.graph.timetable, self._dag.last_tick:
            case Every(months=0, mode="trigger") as every, Tick() as last:
                return Grid(every, last.run_after).until(at)
            case Cron() | Every(months=0, mode="interval"), _:
                return at
            case _:
                return self.now

    def _unmet_until(self, until: datetime) -> datetime:
        """The first time, at most `until`, at which the condition may be met, or an event expires."""
        untimed = msgspec.structs.replace(self._dag, graph=msgspec.structs.replace(self._dag.graph, timetable=None))
        expiry = next_wakeup(untimed, untimed, self.now) or until
        match condition_result(self._dag, self.now):
            case InputsMissing() | OutsideWindow():
                return min(until, expiry)
            case Debouncing(at) | RateLimited(at):
                return min(until, expiry, at)
            case _:
                return self.now

    def _arrive(self, event: Event, number: int) -> None:
        extra = msgspec.json.encode(event.extra).decode()
        arrived = PendingEvent(number, number, event.uri, self.now, self.now, extra)
        self._dag = msgspec.structs.replace(self._dag, pending=(*self._dag.pending, arrived), inputs=None)
        self._decide()

    def _decide(self) -> None:
        self._apply(schedule_next_runs(self._reserved(), self.now))

    def _reserved(self) -> DagView:
        """The DAG with ids for new runs. Only the first run is timed, unless each needs events: others are due without an end."""
        first, *others = (next(self._ids) for _ in range(RESERVED))
        is_timed = self._dag.graph.requires_both or not self.started
        timed = (next(self._ids),) if is_timed else ()
        return msgspec.structs.replace(self._dag, next_run_id=first, event_run_ids=tuple(others), timed_run_ids=timed)

    def _apply(self, effects: Iterator[Effect]) -> None:
        """Apply the effects of a decision, then play the runs that it starts, whose ends are decisions again."""
        made, consumed = [], {}
        for effect in effects:
            match effect:
                case InsertRun():
                    made.append(effect)
                case ConsumeEvents(dag_run_id=run_id, events=events):
                    consumed[run_id] = events
                    self._take(events)
                case DiscardEvents(events=events, reason=reason):
                    self.discarded += [(event, reason) for event in events]
                    self._take(events)
                case UpdateSchedule():
                    self._dag = _scheduled(self._dag, effect)
                case CountFailures(failed_runs=failed_runs):
                    self._dag = msgspec.structs.replace(self._dag, failed_runs=failed_runs)
                case SetPaused(is_paused=is_paused):
                    self._dag = msgspec.structs.replace(self._dag, is_paused=is_paused)
                case _:
                    pass
        self._play_all(made, consumed)

    def _play_all(self, made: Sequence[InsertRun], consumed: dict[int, tuple[PendingEvent, ...]]) -> None:
        self.started += len(made)
        running = [run for run in made if run.state is RunState.RUNNING]
        self._dag = msgspec.structs.replace(self._dag, running=self._dag.running + len(running))
        for run in made:
            state = self._play(run, consumed.get(run.id, ()))
            if run.state is RunState.RUNNING:
                dag, self._dag = self._reserved(), msgspec.structs.replace(self._dag, running=self._dag.running - 1)
                self._apply(schedule_after_ends(dag, [RunEnd(state)], self.now))

    def _take(self, events: Sequence[PendingEvent]) -> None:
        taken = {event.dataset_event_id for event in events}
        left = tuple(event for event in self._dag.pending if event.dataset_event_id not in taken)
        self._dag = msgspec.structs.replace(self._dag, pending=left)


def _scheduled(dag: DagView, effect: UpdateSchedule) -> DagView:
    date, start, end = effect.last_logical_date, effect.last_interval_start, effect.last_interval_end
    tick = None if date is None or start is None or end is None else Tick(date, start, end, end)
    return msgspec.structs.replace(
        dag,
        last_tick=tick,
        due_at=effect.due_at,
        dataset_run_at=effect.dataset_run_at,
        deadline_at=effect.deadline_at,
        last_source=effect.last_source,
        catchup_until=effect.catchup_until,
    )
