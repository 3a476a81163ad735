-- What each daemon was told to be committed, by the connection that it was told on. A server that has less of it than that, such as
-- an asynchronous standby that was promoted, lacks commits that were acknowledged.
CREATE TABLE commit_mark (
    daemon uuid NOT NULL,
    backend integer NOT NULL,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (daemon, number)
);

-- One row for each time that commits were lost, however many daemons find it out.
CREATE TABLE commit_loss (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    timeline text NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    found_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    found_by text NOT NULL,
    runs integer NOT NULL DEFAULT 0,
    settled_at timestamptz,
    settled_by text,
    settled_because text
);
CREATE UNIQUE INDEX commit_loss_open ON commit_loss (timeline) WHERE settled_at IS NULL;
