"""A restored or emptied database: what it lacks, and how daemons go on with it."""
