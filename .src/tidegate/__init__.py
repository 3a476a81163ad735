"""Tidegate: event-driven scheduling of Spark pipelines."""
