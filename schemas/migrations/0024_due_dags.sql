-- The clock asks at each due time of anything: it does not read the DAGs that are held.
DROP INDEX dag_due;
CREATE INDEX dag_due ON dag (clock_shard, due_at) WHERE due_at IS NOT NULL AND held_since IS NULL;
