-- Records that are understood and say nothing of new data, counted by partition and by what they were.
CREATE TABLE ignored_record (
    partition text COLLATE "C" NOT NULL,
    what text COLLATE "C" NOT NULL,
    records bigint NOT NULL,
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (partition, what)
);

-- A dead letter waits for somebody's decision: it was sent again to its topic, or it was discarded. One that was sent again and
-- could still not be handled is another dead letter, which names this one.
CREATE TYPE dead_letter_state AS ENUM ('open', 'replayed', 'discarded');

ALTER TABLE dead_letter
    ADD COLUMN recorded_at timestamptz,
    ADD COLUMN raw_headers bytea,
    ADD COLUMN replay_of bigint,
    ADD COLUMN state dead_letter_state NOT NULL DEFAULT 'open',
    ADD COLUMN closed_at timestamptz,
    ADD COLUMN closed_by text,
    ADD COLUMN closed_because text,
    ADD CHECK ((state = 'open') = (closed_at IS NULL));
UPDATE dead_letter SET recorded_at = received_at;
ALTER TABLE dead_letter ALTER COLUMN recorded_at SET NOT NULL;

-- The same place in a topic that was made anew has another record.
ALTER TABLE dead_letter DROP CONSTRAINT dead_letter_topic_partition_offset_key;
CREATE UNIQUE INDEX dead_letter_record ON dead_letter (topic, partition, "offset", recorded_at, md5(coalesce(value, '')));
CREATE INDEX dead_letter_open ON dead_letter (id) WHERE state = 'open';
CREATE INDEX dead_letter_replay ON dead_letter (replay_of) WHERE replay_of IS NOT NULL;
