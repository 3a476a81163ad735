"""How a run begins, is cleared, changes its version and ends, and which notifications follow: pure."""
