"""How fast it is, beside a peer measured on the same kind of machine. Not tests: figures, shown with their spread."""
