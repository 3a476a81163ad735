-- Fields of dataset events that this version does not know: their producers may mean something by them.
CREATE TABLE ignored_field (
    dataset_id bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (dataset_id, name)
);
