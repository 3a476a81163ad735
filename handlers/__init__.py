"""Decisions: what a message means for the state it finds. One file per message; data in, data out."""
