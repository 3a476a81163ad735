"""Timetables: their serialised shapes, and the ticks and runs that they plan."""
