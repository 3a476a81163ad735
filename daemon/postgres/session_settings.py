"""The settings of the sessions of each program on the server."""

STATEMENT_S = 10
"""The time of a statement, after which the server cancels it: a server that works answers at least as often."""

LOCK_S, LOCK_FOR_PEOPLE_S = 1, 5
"""The time of a wait for a lock. Transactions of ours hold a row for milliseconds; the request of a user has more patience."""

# Every frequent statement has an index for all its parameters. By default Postgres scans small tables, keeps that plan while they
# grow, or plans a statement at each execution, which can take longer than executing it.
BY_INDEX = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}

# The session of a client that is gone ends, also in the middle of a statement. A connection may be idle for hours, and a firewall
# that forgets it says nothing.
ENDED_WITH_CLIENT = {
    "client_connection_check_interval": "1s",
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}

# A statement that waited for a row compares what it expects with the row as it is then. In a transaction with one snapshot it
# would fail instead. `default_transaction_read_only` is left as it is: administrators set it to keep a database from changes.
SNAPSHOT_OF_EACH_STATEMENT = {"default_transaction_isolation": "read committed"}

SERVER_SETTINGS = {
    "application_name": "tidegate",
    "timezone": "UTC",
    **SNAPSHOT_OF_EACH_STATEMENT,
    "statement_timeout": f"{STATEMENT_S}s",
    "lock_timeout": f"{LOCK_S}s",
    "idle_in_transaction_session_timeout": "5s",
    "jit": "off",
    **ENDED_WITH_CLIENT,
    **BY_INDEX,
}

MIGRATING = {
    "application_name": "tidegate migrate",
    **SNAPSHOT_OF_EACH_STATEMENT,
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "60s",
    **ENDED_WITH_CLIENT,
}
"""A statement of a migration takes as long as it takes, whatever the role has as its default."""

FOR_PEOPLE = {**SERVER_SETTINGS, "plan_cache_mode": "force_custom_plan", "lock_timeout": f"{LOCK_FOR_PEOPLE_S}s"}
"""Plans for the parameters at hand: of the filters of a list, most are unset."""


def reading(within_s: float) -> dict[str, str]:
    """The settings of connections for people that only read: short statements."""
    return {**FOR_PEOPLE, "statement_timeout": f"{within_s * 1000:.0f}"}
