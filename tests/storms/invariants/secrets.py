"""No secret may appear in a log, table or topic. Each function returns what contradicts its name, as sentences."""

from collections.abc import Iterable, Mapping

from tests.storms.evidence import Evidence

SECRET = "canary-never-shown"  # noqa: S105 - a canary: a secret that is looked for

SECRETS: Mapping[str, str] = {"webhook_secret": SECRET, "smtp_password": SECRET}
"""Settings of the daemons. Another one is in the address of Postgres."""


def with_secret(dsn: str) -> str:
    """The address of a server that asks for no password, with one."""
    return dsn.replace("@", f":{SECRET}@", 1)


async def no_secret_is_told(e: Evidence) -> Iterable[str]:
    """In the log of a daemon, in a topic, in the database."""
    logs = sorted({end.log for end in e.ends})
    return [
        *(f"{log} has the secret" for log in logs if SECRET.encode() in log.read_bytes()),
        *(f"the record at {place} has the secret" for place, words in e.words if SECRET.encode() in words),
        *(f"the table {table} has the secret" for table in await _tables(e)),
    ]


async def _tables(e: Evidence) -> Iterable[str]:
    """The ones that contain it."""
    tables = await e.db.fetch("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    has = "SELECT EXISTS (SELECT FROM {} AS line WHERE strpos(line::text, $1) > 0)"
    return [table for (table,) in tables if await e.db.fetchval(has.format(table), SECRET)]
