-- Requests that were sent with an Idempotency-Key, so that a repeat gets the same result.
--   digest      SHA-256 of the method, the path and the body: another request must not use the key
--   status      with `content` the result; NULL while the request is at work, or after its server ended
CREATE TABLE idempotency_key (
    username text NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    claimed_at timestamptz NOT NULL DEFAULT now(),
    status integer,
    content bytea,
    PRIMARY KEY (username, key)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);

-- The audit log only grows, and each entry is chained to the one before: a change of an entry, or its removal, breaks the chain.
--   number      the order of commits, without gaps
--   hash        SHA-256 of the hash before and of the entry
CREATE TABLE audit_chain (
    number bigint PRIMARY KEY,
    audit_id bigint NOT NULL UNIQUE REFERENCES audit_log (id),
    hash bytea NOT NULL
);

CREATE FUNCTION audit_digest(previous bytea, entry audit_log) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(
        previous || convert_to(
            jsonb_build_array(
                entry.id, extract(epoch FROM entry.at)::text, entry.who, entry.what, entry.object, entry.details
            )::text,
            'UTF8'
        )
    )
$$;

CREATE FUNCTION chain_audit_entry() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    last audit_chain;
BEGIN
    -- At the commit, when the transaction has all its other locks: it can wait for nothing else while it holds this one.
    PERFORM pg_advisory_xact_lock(hashtext('tidegate.audit_chain'));
    SELECT * INTO last FROM audit_chain ORDER BY number DESC LIMIT 1;
    INSERT INTO audit_chain (number, audit_id, hash)
    VALUES (coalesce(last.number, 0) + 1, NEW.id, audit_digest(coalesce(last.hash, ''), NEW));
    RETURN NULL;
END
$$;

CREATE FUNCTION refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'the audit log only grows';
END
$$;

DO $$
DECLARE
    entry audit_log;
    hash bytea := '';
    number bigint := 0;
BEGIN
    FOR entry IN SELECT * FROM audit_log ORDER BY id LOOP
        number := number + 1;
        hash := audit_digest(hash, entry);
        INSERT INTO audit_chain VALUES (number, entry.id, hash);
    END LOOP;
END
$$;

CREATE CONSTRAINT TRIGGER audit_log_chain AFTER INSERT ON audit_log
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chain_audit_entry();
CREATE TRIGGER audit_log_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_chain_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_chain
FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
