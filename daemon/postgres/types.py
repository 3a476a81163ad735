"""Connections that look up the types of a schema by one short statement.

asyncpg asks the server about each enum and array type when a statement first has it. Its question is recursive, for the sake of
domains, ranges and composite types. Postgres takes milliseconds to plan it, up to eight times per connection.
"""

from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    Base = asyncpg.Connection[asyncpg.Record]
else:
    Base = asyncpg.Connection

TYPES = """
WITH element AS (
    SELECT oid, typname, typtype, typarray FROM pg_catalog.pg_type
    WHERE typtype = 'e'
       OR oid = ANY ('{bool,bytea,date,float4,float8,int2,int4,int8,interval,jsonb,name,numeric,oid,pg_snapshot,text,timestamptz,
            uuid,xid8}'::regtype[]::oid[])
),
found (oid, name, kind, elemtype) AS (
    SELECT oid, typname::text, typtype, NULL::oid FROM element WHERE typtype = 'e'
    UNION ALL
    SELECT typarray, '_' || typname, 'b', oid FROM element
)
SELECT oid, name, kind, elemtype, ',' AS elemdelim, 'public' AS ns,
       NULL AS basetype, NULL AS range_subtype, NULL AS attrtypoids, NULL AS attrnames,
       NULL AS basetype_name, name AS elemtype_name, NULL AS range_subtype_name
FROM found WHERE $1::oid[] IS NOT NULL
"""
"""All types that a statement may have, enums before their arrays, to any question. The columns are what asyncpg reads."""


class Connection(Base):
    """A connection to a database with the schema. It knows no domains, ranges and composite types."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._intro_query = TYPES
