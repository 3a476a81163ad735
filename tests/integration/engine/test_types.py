"""The connections of the pool know every type of the schema after one question."""

from typing import Any

from tidegate.daemon.postgres.database import connect

ALL = """
SELECT n.nspname = 'public' AND t.typtype = 'e' AS is_enum, format_type(coalesce(a.atttypid, t.oid), NULL) AS type
FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
LEFT JOIN pg_attribute AS a ON a.atttypid = t.oid AND a.attnum > 0 AND a.attrelid = ANY (
    SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
)
WHERE n.nspname = 'public' AND t.typtype = 'e' OR a.attrelid IS NOT NULL
GROUP BY 1, 2
"""


async def test_types_of_the_schema_are_looked_up_once(dsn: str) -> None:
    asked: list[str] = []
    async with connect(dsn, connections=1) as database, database.pool.acquire() as connection:
        types: list[Any] = await connection.fetch(ALL)
        connection.add_query_logger(lambda query: asked.append(query.query))
        for row in types:
            of_it = row["type"].removesuffix("[]")
            assert await connection.fetchval(f"SELECT $1::{of_it}[]", []) == []
            assert await connection.fetchval(f"SELECT NULL::{of_it}") is None

    assert {"run_state", "task_state", "submission_state"} <= {row["type"] for row in types if row["is_enum"]}
    assert sum("pg_type" in query for query in asked) == 1
