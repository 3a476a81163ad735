"""`tidegate doctor` names the kills that no cluster has confirmed, until another try has ended what is left."""

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History

MAY_GO_ON = "its application on YARN may go on (tidegate-1): http://rm:8088: its state is STANDBY"
ONE = """
from tidegate import Dag
with Dag("one") as dag:
    dag.submit("load", "load.py")
"""


async def test_doctor_names_a_kill_that_is_not_confirmed_until_another_try_begins(history: History, cli: Cli) -> None:
    await history.file(ONE)
    await cli("runs", "trigger", "one", "--run-id", "a")
    (attempt,) = await history.attempts_begin()
    await cli("runs", "cancel", "one", "a")
    before = await cli("doctor")

    await history.attempt_ends(attempt.submission_id, "lost", MAY_GO_ON)
    lost, shown = await cli("doctor"), await cli("runs", "show", "one", "a", "--json")
    await cli("runs", "clear", "one", "a", "--yes")
    await history.clock("one")
    await history.reconsidered()
    await history.attempts_begin()
    again = await cli("doctor")

    named, advice = "task load of one a may go on: cancelled by ", f"; {MAY_GO_ON}; look there, and end it\n"
    assert [named in answer.out for answer in (before, lost, again)] == [False, True, False]
    assert advice in lost.out
    assert MAY_GO_ON in shown.out
