-- How users and programs are known to the web pages and the API.
--   kind        token: of a program or a user, shown once; session: of a browser; link: begins one session
--   digest      SHA-256 of the secret, which is stored nowhere
--   dags        patterns of the ids of the DAGs that its owner may change
--   parent_id   the token that a session began with; the session ends with it
CREATE TABLE credential (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('token', 'session', 'link')),
    digest bytea NOT NULL UNIQUE,
    username text NOT NULL,
    role text NOT NULL CHECK (role IN ('viewer', 'editor', 'operator', 'admin')),
    dags text[] NOT NULL,
    description text NOT NULL DEFAULT '',
    parent_id bigint REFERENCES credential (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX credential_parent ON credential (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX credential_expiry ON credential (expires_at);

-- The failed runs that a user has to see, newest first.
CREATE INDEX dag_run_failed ON dag_run (end_date) WHERE state = 'failed';
