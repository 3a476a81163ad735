-- A lease lasts for as long as its owner shows life in job: renewing it writes no row of a partition any more. Whoever claims one
-- sets expires_at to infinity, for daemons of older builds that are still at work; no newer one reads it.
COMMENT ON COLUMN lease.expires_at IS 'for daemons of older builds only';
