"""Connections, transactions and commit guarantees of Postgres."""
