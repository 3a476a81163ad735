"""The storm over three brokers, as it fits into a test, and the great one."""

from tests.storms.brokers.nemesis import STRIKES
from tests.storms.nemesis import Misery
from tests.storms.storm import Plan

BROKERS = Plan(
    events=1_500,
    again_share=0.2,
    bad=12,
    send_s=35,
    misery=Misery(kills=1, terms=1, every_s=(6.0, 12.0), within_s=30),
    strikes=("keep two away", "restart all in good order"),
)

GREAT_BROKERS = Plan(
    events=40_000,
    again_share=0.2,
    bad=200,
    send_s=240,
    misery=Misery(kills=20, terms=5, stops=5, postgres_crashes=2, cut_bursts=5, terminations=5, every_s=(4.0, 8.0), within_s=240),
    strikes=(*STRIKES, *STRIKES),
    rest_s=180,
)
