"""Which waiting tasks get slots: pure but for `load`."""
