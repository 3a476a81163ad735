-- The digests of the files that a DAG file depends on, by path; "" for one that is missing. The digest of the DAG file covers them.
ALTER TABLE dag_file ADD COLUMN imports jsonb NOT NULL DEFAULT '{}';

-- The modules of the DAG folder that the functions of a version import, each content once.
CREATE TABLE module_source (
    digest text PRIMARY KEY,
    source text NOT NULL
);
CREATE TABLE version_module (
    version_id bigint NOT NULL REFERENCES dag_version (id) ON DELETE CASCADE,
    path text NOT NULL,
    digest text NOT NULL REFERENCES module_source (digest),
    PRIMARY KEY (version_id, path)
);
CREATE INDEX version_module_digest ON version_module (digest);
