-- A table that keeps its past is cleaned by how much of it changed since, not by how much there is: the index of the runs at work
-- would otherwise grow with the runs that have ended.
ALTER TABLE dag_run SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000);
