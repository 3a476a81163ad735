"""Conditions over datasets: their shape, the filters on events and the patterns of URIs."""
