"""Timetables: what a DAG file may say about time, and the ticks that follow from it."""
