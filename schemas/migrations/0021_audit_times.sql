-- The audit log grows without an end, and is exported by time. While the index is built, nothing can be changed that it records.
CREATE INDEX audit_log_at ON audit_log (at);

-- While Kafka is away the outbox has many rows, and dead letters are looked at just then.
CREATE INDEX outbox_replay ON outbox (key) WHERE kind = 'replay';
