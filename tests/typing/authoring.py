"""Typed uses of the authoring API: `mypy --strict` must accept all of this, and refuse the lines that carry an ignore."""

from datetime import UTC, datetime, time, timedelta
from typing import Any, assert_type

from tidegate import (
    CallbackContext,
    ConsumedEvent,
    Dag,
    Dataset,
    DatasetOrTime,
    DatasetPattern,
    DatasetsAndTime,
    Deadline,
    Email,
    Event,
    InputDeadline,
    Run,
    Task,
    Timed,
    Webhook,
    cron,
    every,
    n_of,
)

flights, weather = Dataset("lake://flights"), Dataset("lake://weather")
delays = Dataset("lake://delays")

with Dag("daily_delays", schedule=flights & weather | delays, max_active_runs=4, tags=["daily"]) as dag:
    assert_type(dag, Dag)

    @dag.task
    def bare(spark: Any, run: Run) -> int:
        return len(run.events)

    @dag.task(retries=2, retry_delay=timedelta(minutes=5), outlets=[delays])
    def join(spark: Any, run: Run) -> str:
        return run.run_id

    report = dag.sql("report", "SELECT 1", retries=1, cluster="nightly")
    publish = dag.submit("publish", "publish.py", args=["--run", "{{ run_id }}"], conf={"spark.executor.memory": "1g"})
    notify = dag.command("notify", ["echo", "done"], env={"WHO": "all"}, python="/usr/bin/python3", resources={"memory": "1g"})
    done = dag.empty("done", trigger_rule="all_done")
    cluster = dag.command("cluster", ["start"]).as_setup()
    stop = dag.command("stop", ["stop"]).as_teardown(setups=cluster)

    assert_type(bare >> report, Task)
    assert_type(join >> [report, publish], list[Task])
    assert_type([bare, join] >> report, Task)
    assert_type([report, publish] << done, Task)
    assert_type(done << publish << notify, Task)
    bare >> join >> done

Dag("on_all", schedule=[flights, weather])
Dag("by_hand", schedule=None)
Dag("daily", schedule="0 3 * * *", timezone="Europe/Zurich", start_date=datetime(2024, 1, 1, tzinfo=UTC), catchup=True)
Dag("hourly", schedule=timedelta(hours=1), default_args={"retries": 2, "pool": "small"}, dagrun_timeout=timedelta(hours=1))
Dag("monthly", schedule=every(months=1, mode="interval"))
Dag("weekdays", schedule=cron("0 3 * * MON-FRI", "0 5 * * SAT", interval=timedelta(days=1)))
Dag("either", schedule=DatasetOrTime(flights & weather, "@daily"))

rows = Dataset("lake://rows", where="rows > 0", expire_after=timedelta(hours=6), name="Rows", extra={"owner": "x"})
two = n_of(2, rows, weather, DatasetPattern("s3://bucket/table/*")) & (flights | delays)
timed = Timed(two, within=timedelta(hours=1), quiet_for=timedelta(minutes=1), deadline=InputDeadline(at=time(9), fallback="skip"))
Dag("each", schedule=rows, mode="each", on_paused="keep", catchup=True)
Dag("timed", schedule=timed)
Dag("timed_or_daily", schedule=DatasetOrTime(timed, "@daily"))
Dag("both", schedule=DatasetsAndTime([rows, weather], cron("0 6 * * *")))


def tell(context: CallbackContext) -> None:
    assert_type(context.task_id, str | None)


Dag("watched", deadlines=[Deadline("by nine", at=time(9)), Deadline("soon", after=timedelta(hours=1), since="queued_at")])
Dag("telling", on_failure=tell, on_success=[Email("ops@example.org"), Webhook("https://example.org/"), tell], on_timeout=None)
dag.empty("told", on_retry=tell, on_deadline=[Email("ops@example.org")], deadlines=[Deadline("by nine", at=time(9))])


def inspect(run: Run, event: ConsumedEvent) -> None:
    assert_type(bare(None, run), int)
    assert_type(join(spark=None, run=run), str)
    assert_type(([report, publish] << bare)(None, run), int)
    assert_type(([report, publish] >> join)(spark=None, run=run), str)
    assert_type(run.run_after, datetime)
    assert_type(run.events, tuple[ConsumedEvent, ...])
    assert_type(event.extra, dict[str, Any])


def refused(run: Run) -> None:
    bare(run)  # type: ignore[call-arg]
    dag.empty("x", retires=1)  # type: ignore[call-arg]
    dag.empty("x", retry_delay=5)  # type: ignore[arg-type]
    dag.empty("x", outlets=["lake://x"])  # type: ignore[list-item]
    dag.empty("x", on_failure="ops@example.org")  # type: ignore[arg-type]
    Dag("d", on_failure=check_run)  # type: ignore[arg-type]
    Deadline("x", after=5)  # type: ignore[arg-type]
    dag.task(retries="2")  # type: ignore[call-overload]
    Dag("d", schedule=5)  # type: ignore[arg-type]
    report >> "publish"  # type: ignore[type-var]
    flights ^ weather  # type: ignore[operator]
    assert ~flights  # type: ignore[operator]


def check_run(run: Run) -> None:
    """Takes something else than a callback does."""
    two & timed  # type: ignore[operator]
    Dag("d", schedule=rows, mode="every")  # type: ignore[arg-type]
    InputDeadline(at=time(9), fallback="run")  # type: ignore[arg-type]


def try_out() -> None:
    trial = dag.test(
        events=[flights, "lake://x", Event(weather, {"rows": 1}, after=timedelta(hours=1))], replace={"join": inspect}
    )
    assert_type(trial.run.states, dict[str, str])
    dag.test(events=[5])  # type: ignore[list-item]
