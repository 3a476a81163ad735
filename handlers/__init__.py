"""Decisions: one file per message, which turns messages and state into effects."""
