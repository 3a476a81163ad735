"""The storm of wrong clocks, as it fits into a test, and a long one."""

from tests.storms.clocks.pipelines import CLOCK_DAGS
from tests.storms.nemesis import Misery
from tests.storms.storm import Plan

TEN_MINUTES = 600
CLOCKS = {"a": f"{TEN_MINUTES}", "b": f"-{TEN_MINUTES}", "c": f"0,{TEN_MINUTES}@8,-{TEN_MINUTES}@14,0@20"}

CLOCKED = Plan(
    events=1_500,
    again_share=0.2,
    bad=12,
    send_s=20,
    misery=Misery(kills=2, terms=1, every_s=(4.0, 7.0), within_s=20),
    daemons=3,
    clocks=CLOCKS,
    dags=CLOCK_DAGS,
    timed_s=45,
    script={"fail_share": 0.3},
)

LONG_CLOCKED = Plan(
    events=15_000,
    again_share=0.2,
    bad=50,
    send_s=120,
    misery=Misery(kills=15, terms=4, stops=4, postgres_crashes=1, broker_kills=1, cut_bursts=3, every_s=(4.0, 8.0), within_s=120),
    daemons=3,
    clocks={**CLOCKS, "c": ",".join(f"{(number % 3 - 1) * TEN_MINUTES}@{7 * number}" for number in range(1, 20))},
    dags=CLOCK_DAGS,
    timed_s=150,
    script={"fail_share": 0.3},
)
