"""The Python API that DAG files are written in, and how its objects become a `DagSpec`."""
