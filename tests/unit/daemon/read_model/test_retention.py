"""What is kept how long."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from tidegate.daemon.read_model.retention import retained
from tidegate.schemas.queries.leases import Retention, Terms
from tidegate.schemas.queries.system_pages import DaemonLine, LedgerLine

NOW = datetime(2026, 12, 1, tzinfo=UTC)
NO_MONTHS = LedgerLine(0, 0, None)


def daemon(*days: int) -> DaemonLine:
    return DaemonLine("h", 1, NOW, NOW, Terms(retention=Retention(*days)), {}, UUID(int=1), "1.0", ())


def kept(*daemons: DaemonLine) -> list[str]:
    return [row.kept for row in retained(daemons, NO_MONTHS)][:4]


def test_the_settings_of_the_daemons_say_how_long() -> None:
    assert kept(daemon(14, 90, 1)) == ["14 days", "90 days", "90 days", "1 day"]


def test_daemons_that_differ_are_all_named() -> None:
    assert kept(daemon(14, 90, 1), daemon(7, 90, 2))[::3] == ["7 or 14 days", "1 or 2 days"]


def test_a_daemon_of_a_former_version_does_not_say() -> None:
    assert kept(daemon())[0] == kept()[0] == "as the daemons are set, which is not known"


def test_the_ledger_says_which_months_were_dropped() -> None:
    ledgers = [NO_MONTHS, LedgerLine(2612, 1, NOW), msgspec.structs.replace(NO_MONTHS, dropped=2)]

    assert [retained((), ledger)[1].removal for ledger in ledgers] == [
        "0 months dropped",
        "1 month dropped, the last at 2026-12-01 00:00:00Z; the oldest is December 2026",
        "2 months dropped",
    ]
