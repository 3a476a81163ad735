-- Records that are understood and say nothing of new data, counted by partition and by what they were.
CREATE TABLE ignored_record (
    partition text COLLATE "C" NOT NULL,
    what text COLLATE "C" NOT NULL,
    records bigint NOT NULL,
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (partition, what)
);
