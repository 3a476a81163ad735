"""The storm of hostile inputs, as it fits into a test, and the great one."""

from tests.storms.hostile.intruder import Intrusion
from tests.storms.hostile.storm import HostilePlan
from tests.storms.meddler import Meddling
from tests.storms.nemesis import Misery
from tests.storms.plans import GREAT

HOSTILE = HostilePlan(
    events=1_500,
    again_share=0.1,
    bad=64,
    hot=1_000,
    spoils=1,
    send_s=10,
    misery=Misery(kills=4, every_s=(1.5, 3.0), within_s=10),
    meddling=Meddling(pauses=1, edits=2, clears=2, within_s=10),
    intrusion=Intrusion(files=14, damages=4, damaged_s=(1.0, 2.5), clears=4, forgeries=8, commands=2, requests=8, within_s=10),
    timed_s=25,
)

GREAT_HOSTILE = HostilePlan(
    **{name: getattr(GREAT, name) for name in GREAT.__struct_fields__ if name not in ("bad", "timed_s")},
    bad=1_000,
    hot=20_000,
    spoils=8,
    intrusion=Intrusion(files=42, damages=60, clears=60, forgeries=100, commands=20, requests=60, within_s=265),
    timed_s=280,
)
