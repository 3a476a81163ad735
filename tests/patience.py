"""Limits of time of Postgres, in the processes of the tests: a machine that stands still for some seconds meets none of them.

They are left to end what hangs. A test of a limit sets its own; programs that a test starts have those of the product.
"""

from tidegate.daemon.postgres.session_settings import FOR_PEOPLE, SERVER_SETTINGS

LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


def use() -> None:
    """Before the first connection to Postgres."""
    for settings in (SERVER_SETTINGS, FOR_PEOPLE):
        settings.update(dict.fromkeys(LIMITS, "2min"))
