"""Everything `tidegate standalone` starts, on loopback and below one directory."""
