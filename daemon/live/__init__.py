"""Live changes: one consumer of the state topics per web process, the open streams that it feeds, and the ranges of the logs."""
