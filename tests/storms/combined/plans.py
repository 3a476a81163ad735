"""The storm over three brokers, with failovers and wrong clocks, as it fits into a test, and the great one."""

from tests.storms.brokers.nemesis import STRIKES
from tests.storms.clocks.pipelines import CLOCK_DAGS
from tests.storms.clocks.plans import CLOCKED, LONG_CLOCKED
from tests.storms.killpoints import POINTS
from tests.storms.meddler import Meddling
from tests.storms.nemesis import Misery
from tests.storms.storm import Plan

COMBINED = Plan(
    daemons=3,
    events=2_000,
    again_share=0.2,
    bad=12,
    send_s=40,
    misery=Misery(kills=6, terms=1, stops=1, every_s=(4.0, 7.0), within_s=40),
    meddling=Meddling(pauses=4, edits=4, clears=4, within_s=38),
    strikes=("keep two away", "kill the leader of the most"),
    promotions=2,
    clocks=CLOCKED.clocks,
    dags=CLOCK_DAGS,
    timed_s=90,
    script={"fail_share": 0.3},
)

GREAT_COMBINED = Plan(
    daemons=3,
    events=25_000,
    again_share=0.2,
    bad=125,
    send_s=290,
    misery=Misery(
        kills=100,
        terms=10,
        stops=15,
        die_at=tuple(f"{point}:3" for point in POINTS),
        every_s=(1.5, 4.0),
        terminations=8,
        within_s=290,
    ),
    meddling=Meddling(pauses=25, edits=30, clears=30, within_s=285),
    strikes=tuple(STRIKES),
    promotions=6,
    clocks=LONG_CLOCKED.clocks,
    dags=CLOCK_DAGS,
    timed_s=360,
    rest_s=240,
    script={"fail_share": 0.3},
)
"""Every broker is away at least three times, and each of the two servers of Postgres is the primary three times."""
