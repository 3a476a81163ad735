"""`restore check`: what a restored or emptied database lacks."""

from tidegate.daemon.cli.pages import output
from tidegate.daemon.restore.check import RestoreCheck
from tidegate.schemas.text import utc

ROWS = 20
"""The most rows of a section; `--json` has all."""


def print_check(found: RestoreCheck) -> None:
    """The verdict, the facts, and the first rows of each kind."""
    here = found.installation
    if here.held_since is None:
        output.write("the database is not held: daemons work with it")
    else:
        output.write(f"the database is held since {utc(here.held_since)}: {here.hold_reason}")
    output.facts(
        [
            ("installation", here.identity or "none yet"),
            ("last home", here.home or "none yet"),
            ("home now", found.home),
            ("restores", here.restores),
            ("newest commit", found.lost_since),
            ("newest receipt here", found.acknowledged_until),
            ("ids ahead", found.ids_ahead or None),
        ]
    )
    for fact in found.facts():
        output.write(f"  {fact}")
    _print_rows(found)
    if here.held_since is not None:
        output.write("`tidegate restore settle --help` lists the ways to go on")


def _print_rows(found: RestoreCheck) -> None:
    output.section(
        "Partitions",
        ("PARTITION", "NEXT OFFSET", "READ TO", "READ BY", "LOG START", "LOG END", "UNREAD", "EXPIRED"),
        [
            (it.partition, it.next_offset, it.read_to, it.read_by, it.log_start, it.log_end, it.unread, it.expired)
            for it in found.partitions
        ],
        empty="Kafka has no topic of the installation",
    )
    output.section(
        "Runs that the database lacks",
        ("DAG", "RUN", "STATE", "AT"),
        [(run.dag_id, run.run_id, run.state, run.at) for run in found.runs[:ROWS]],
        empty="none",
    )
    output.section(
        "Tasks that may have run since",
        ("DAG", "RUN", "TASK", "TRY", "STATE", "AT", "RUN IS THERE"),
        [
            (it.dag_id, it.run_id, it.task, it.try_number, it.state, it.at, "yes" if it.is_known else "no")
            for it in found.tasks[:ROWS]
        ],
        empty="none",
    )
    output.section(
        "Attempts in the spool of this host that the database does not know",
        ("SUBMISSION", "STATE"),
        [(str(it.submission_id), it.state) for it in found.on_host[:ROWS]],
        empty="none",
    )
