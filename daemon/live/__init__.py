"""Live changes: one consumer of the state topics per web process, and the open streams that it feeds."""
