"""Shapes of data: on the wire, in DAG files, in Postgres. Pure; imports nothing else of ours."""
