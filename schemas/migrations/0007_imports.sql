-- The digests of the files that a DAG file depends on, by path; "" for one that is missing. The digest of the DAG file covers them.
ALTER TABLE dag_file ADD COLUMN imports jsonb NOT NULL DEFAULT '{}';
