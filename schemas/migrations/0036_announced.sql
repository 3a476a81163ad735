-- By task, how often a user had the outlets of the run announced again: the number is part of the ids of their events.
ALTER TABLE dag_run ADD COLUMN announced jsonb;
