-- The logins at a provider of OpenID Connect that have begun a session: none begins a second one.
--   digest      SHA-256 of the state that ties the answer of the provider to its browser
CREATE TABLE used_login_state (
    digest bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX used_login_state_expiry ON used_login_state (expires_at);
