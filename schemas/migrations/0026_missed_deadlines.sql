-- The first page lists the deadlines that were missed last: those of long runs may have any id. While the index is built, no run
-- with a deadline starts, and no deadline is met or missed.
CREATE INDEX deadline_missed_at ON deadline (missed_at) WHERE missed_at IS NOT NULL;
