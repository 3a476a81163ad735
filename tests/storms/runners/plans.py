"""The storm of runners, as it fits into a test, the great one, and the small ones that are aimed at one seeded fault each."""

from collections.abc import Mapping

from msgspec.structs import replace

from tests.storms.killpoints import POINTS
from tests.storms.meddler import Meddling
from tests.storms.nemesis import Misery
from tests.storms.runners.storm import SILENT_S, RunnersPlan

HOSTS = {"a": "one", "b": "one", "c": "two", "d": "three"}
"""Two daemons share a host. The others are alone on theirs, which loses contact when they are frozen."""

ALONE = ("c", "d")

FROZEN_S = (SILENT_S + 1.0, SILENT_S + 3.0)

RUNNERS = RunnersPlan(
    hosts=HOSTS,
    daemons=len(HOSTS),
    events=80,
    send_s=20,
    misery=Misery(
        kills=8, stops=2, stopped=ALONE, stop_s=FROZEN_S, die_at=("after_submit",) * 2, every_s=(1.5, 3.0), within_s=20
    ),
    meddling=Meddling(cancels=4, marks=2, clears=2, clears_at_work=3, within_s=18),
    rest_s=180,
)

SUITE = replace(
    RUNNERS,
    events=28,
    long_dags=4,
    send_s=10,
    misery=replace(RUNNERS.misery, kills=3, within_s=10),
    meddling=Meddling(cancels=2, marks=1, clears=1, clears_at_work=2, within_s=9),
)
"""What `make test` rides out: a smaller one, with fewer kills. It has more long tasks, for the hosts that are frozen."""

GREAT_RUNNERS = RunnersPlan(
    hosts=HOSTS,
    daemons=len(HOSTS),
    events=2_500,
    again_share=0.1,
    send_s=660,
    misery=Misery(
        kills=300,
        terms=20,
        stops=60,
        stopped=ALONE,
        stop_s=FROZEN_S,
        die_at=tuple(f"{point}:2" for point in POINTS),
        every_s=(1.2, 2.6),
        broker_kills=3,
        postgres_crashes=3,
        cut_bursts=4,
        within_s=660,
    ),
    meddling=Meddling(pauses=10, edits=10, cancels=100, marks=40, clears=40, clears_at_work=80, within_s=650),
    rest_s=180,
)

FROZEN_RUNNERS = RunnersPlan(hosts=HOSTS, daemons=len(HOSTS), events=120, send_s=60, frozen_runners=4, misery=Misery(), rest_s=90)
"""The daemons are well: each host ends in time what its frozen runners cannot end."""

AIMED: Mapping[str, RunnersPlan] = {
    # Long tasks are at work on a host whose daemon is frozen.
    "contact_not_watched": RunnersPlan(
        hosts=HOSTS,
        daemons=len(HOSTS),
        events=120,
        send_s=40,
        misery=Misery(stops=3, stopped=ALONE, stop_s=(SILENT_S + 3.0, SILENT_S + 5.0), within_s=40),
        rest_s=60,
    ),
    "frozen_runners_live": FROZEN_RUNNERS,
    # A runner waits for its confirmation when its daemon is killed before it has recorded it, and waits for longer than other
    # daemons do before they submit the attempt.
    "spools_not_told_apart": RunnersPlan(
        hosts=HOSTS,
        daemons=len(HOSTS),
        events=120,
        send_s=30,
        settings={"runner_silent_s": 60},
        misery=Misery(die_at=("after_submit",) * 8, every_s=(2.0, 4.0), within_s=30),
        rest_s=60,
    ),
}
