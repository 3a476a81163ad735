-- A receiver that hangs may have a long backlog, which claims for other receivers pass over by this index. Each DAG has functions of
-- its own: those of two DAGs may have the same name. While the index is built, notifications can be read, but not written.
CREATE FUNCTION receiver_key(kind text, receiver jsonb, context jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    hashtextextended(receiver::text || CASE kind WHEN 'function' THEN coalesce(context ->> 'dag_id', '') ELSE '' END, 0);

CREATE INDEX notification_receiver ON notification (kind, receiver_key(kind, receiver, context), due_at)
WHERE state IN ('pending', 'sending');

CREATE VIEW open_notification AS
SELECT id, kind, state, host, owner, due_at, receiver_key(kind, receiver, context) AS receiver_key
FROM notification
WHERE state IN ('pending', 'sending');
