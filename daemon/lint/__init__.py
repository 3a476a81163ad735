"""Mistakes in DAG files that can be parsed: what fails only in a run, found before there is one.

Each rule is the one that the runner or the daemon applies later.
"""
