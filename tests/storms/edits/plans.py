"""The storm of edits: a short one, and the whole one."""

from tests.storms.edits.editor import Editing
from tests.storms.edits.storm import EditsPlan
from tests.storms.nemesis import Misery

EDITS = EditsPlan(
    events=600,
    send_s=15,
    misery=Misery(kills=3, every_s=(3.0, 5.0), within_s=15),
    editing=Editing(files=40, edits=200, within_s=15),
)

GREAT_EDITS = EditsPlan(
    events=6_000,
    again_share=0.1,
    send_s=120,
    misery=Misery(kills=15, terms=3, stops=2, every_s=(4.0, 7.0), within_s=120),
    editing=Editing(files=200, edits=1_800, within_s=120),
)
"""Two minutes: each file is edited nine times."""
