"""How a backfill plans its dates, starts their runs, and ends: pure."""
