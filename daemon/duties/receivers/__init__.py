"""Senders of notifications: mail, webhooks, functions of DAG files."""
