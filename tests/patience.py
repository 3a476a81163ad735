"""Limits of time in the processes of the tests: a machine that stands still for some seconds meets none of them.

Those of Postgres are left to end what hangs. A test of a limit sets its own; programs that a test starts have those of the
product. Hypothesis has none for an example.
"""

from hypothesis import settings as hypothesis_settings

from tidegate.daemon.postgres.session_settings import FOR_PEOPLE, SERVER_SETTINGS

LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


def use() -> None:
    """Before the first connection to Postgres, and before the import of the first test."""
    hypothesis_settings.register_profile("patient", deadline=None)
    hypothesis_settings.load_profile("patient")
    for settings in (SERVER_SETTINGS, FOR_PEOPLE):
        settings.update(dict.fromkeys(LIMITS, "2min"))
