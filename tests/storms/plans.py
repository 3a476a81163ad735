"""The storm, and the smaller ones that are aimed at one seeded fault each."""

from collections.abc import Mapping

from msgspec.structs import replace

from tests.storms.killpoints import POINTS
from tests.storms.meddler import Meddling
from tests.storms.nemesis import Misery
from tests.storms.pipelines import CROWDED, CROWDED_DAGS, DAGS, INPUTS, SEPARATE, SEPARATE_DAGS, copies
from tests.storms.storm import Plan

STORM = Plan(
    slots=6,
    events=20_000,
    again_share=0.2,
    bad=100,
    send_s=60,
    misery=Misery(
        kills=20,
        terms=3,
        stops=5,
        die_at=tuple(f"{point}:3" for point in POINTS),
        every_s=(0.8, 3.2),
        broker_kills=2,
        postgres_crashes=2,
        cut_bursts=5,
        within_s=60,
    ),
    meddling=Meddling(pauses=12, edits=15, clears=15, within_s=58),
)
"""`die_at` are kills beyond the twenty: one at each point where it matters most."""

SUITE = replace(
    STORM,
    events=7_500,
    send_s=27,
    misery=replace(STORM.misery, kills=8, terms=2, stops=3, broker_kills=1, postgres_crashes=1, cut_bursts=4, within_s=27),
    meddling=Meddling(pauses=8, edits=10, clears=10, within_s=25),
)
"""What `make test` rides out: a smaller one, with fewer kills."""

GREAT = Plan(
    daemons=3,
    events=50_000,
    again_share=0.2,
    bad=250,
    send_s=270,
    files=copies(4),
    dags=4 * DAGS,
    inputs=4 * INPUTS,
    misery=Misery(
        kills=60,
        terms=10,
        stops=20,
        die_at=tuple(f"{point}:3" for point in POINTS),
        every_s=(1.5, 4.5),
        broker_kills=10,
        postgres_crashes=5,
        cut_bursts=10,
        terminations=10,
        partitions=24,
        delays=12,
        within_s=270,
    ),
    meddling=Meddling(pauses=30, edits=40, clears=40, within_s=265),
    rest_s=180,
)
"""The one that is to convince: every way between a daemon and a server is cut four times, mostly for longer than leases last."""


AIMED: Mapping[str, Plan] = {
    # When the outcome of a commit is unknown, and reading the offsets fails as well, only the compared offset protects:
    # so that it happens often, each commit may be cut by itself, and leases are seldom renewed, for that is to ask, too.
    # The share is small: a new connection takes some statements, and one that is made after the burst loads the offsets.
    "offset_not_compared": Plan(
        events=3_000,
        again_share=0.2,
        send_s=20,
        settings={"lease_ttl_s": 10, "lease_renew_s": 4},
        misery=Misery(cut_bursts=5, cut_share=0.2, cut_s=(3.0, 3.5), within_s=20),
        rest_s=30,
    ),
    # Every DAG waits for everything. A burst finds them idle, and comes to both daemons at once.
    "queue_rows_not_locked": Plan(
        events=500,
        send_s=10,
        misery=Misery(),
        rest_s=20,
        files=CROWDED,
        dags=CROWDED_DAGS,
        script={"run_s": (0.01, 0.05)},
    ),
    "outbox_deleted_before_ack": Plan(
        events=1_500, send_s=8, misery=Misery(kills=2, broker_kills=1, every_s=(2.0, 4.0), within_s=6), rest_s=20
    ),
    "submit_without_find": Plan(
        events=1_000, send_s=8, misery=Misery(kills=2), rest_s=20, script={"answer_lost_share": 0.2, "fail_share": 0.0}
    ),
    # Each event makes a run of its own, and the others wait until it has ended.
    "queue_emptied_by_dag": Plan(
        events=500,
        send_s=5,
        misery=Misery(),
        meddling=Meddling(pauses=2, edits=5, clears=3, within_s=5),
        rest_s=20,
        files=SEPARATE,
        dags=SEPARATE_DAGS,
        script={"run_s": (0.01, 0.05)},
    ),
    **dict.fromkeys(
        ("extras_reversed", "arrival_taken_for_occurrence", "extras_not_given", "first_state_repeated"),
        Plan(events=500, send_s=4, misery=Misery(), rest_s=20, script={"run_s": (0.01, 0.05)}),
    ),
    # Copies are in other partitions than the first ones, and ids are shared by sources.
    "sources_not_told_apart": Plan(events=500, again_share=0.2, send_s=4, misery=Misery(), rest_s=20),
    "letters_deleted_before_sent": Plan(events=100, bad=30, send_s=3, misery=Misery(), rest_s=20),
    "settings_told": Plan(events=100, send_s=2, misery=Misery(), rest_s=20),
}
"""By fault, what brings it to light soon."""
