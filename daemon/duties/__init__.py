"""The duties of a daemon, one file each."""
