-- The Spark cluster that the task of an attempt names; NULL for one that names none, and for one of a former version. Only daemons
-- that know the cluster claim the attempt.
ALTER TABLE submission ADD COLUMN cluster text;
