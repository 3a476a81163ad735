"""Where tasks run: the contract every backend keeps, one file per backend, and the runner process."""
