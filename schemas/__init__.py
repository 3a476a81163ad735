"""Shapes of data: on the wire, in DAG files, in Postgres. Only `queries/` awaits. Nothing here imports another folder."""
