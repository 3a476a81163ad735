-- name: insert
INSERT INTO credential (kind, digest, username, role, dags, description, parent_id, created_by, groups, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + make_interval(secs => $10))
RETURNING id, expires_at

-- name: find
-- A session ends with the token that it began with. A session that a version without `groups` began by a way with groups has
-- ended: its rights would stay those of its login.
SELECT credential.id, credential.username, credential.role, credential.dags, credential.groups
FROM credential
LEFT JOIN credential AS parent ON parent.id = credential.parent_id
WHERE credential.digest = $1 AND credential.kind = $2
  AND credential.revoked_at IS NULL AND credential.expires_at > now()
  AND parent.revoked_at IS NULL AND coalesce(parent.expires_at > now(), true)
  AND (credential.kind <> 'session' OR credential.groups IS NOT NULL
       OR credential.description NOT IN ('OpenID Connect', 'proxy'))

-- name: valid
SELECT credential.id
FROM credential
LEFT JOIN credential AS parent ON parent.id = credential.parent_id
WHERE credential.id = ANY($1)
  AND credential.revoked_at IS NULL AND credential.expires_at > now()
  AND parent.revoked_at IS NULL AND coalesce(parent.expires_at > now(), true)

-- name: redeem
-- A link begins one session: of two requests one deletes it.
DELETE FROM credential
WHERE digest = $1 AND kind = 'link' AND revoked_at IS NULL AND expires_at > now()
RETURNING id, username, role, dags, groups

-- name: list_tokens
SELECT id, username, role, dags, description, created_at, created_by, expires_at, revoked_at
FROM credential
WHERE kind = 'token' AND ($1::bigint IS NULL OR id > $1)
ORDER BY id
LIMIT $2

-- name: revoke
UPDATE credential SET revoked_at = now() WHERE id = $1 AND kind = 'token' AND revoked_at IS NULL
RETURNING username

-- name: end_sessions
-- With $2 the sessions that began in this way.
DELETE FROM credential WHERE kind = 'session' AND username = $1 AND ($2::text IS NULL OR description = $2) RETURNING id

-- name: set_groups
-- A session without groups has ended, and stays so.
UPDATE credential SET groups = $3
WHERE kind = 'session' AND username = $1 AND description = $2 AND groups <> $3

-- name: remove
DELETE FROM credential WHERE id = $1

-- name: use_state
-- The state of a login at a provider counts once: of two requests one stores it.
INSERT INTO used_login_state (digest, expires_at) VALUES ($1, now() + make_interval(secs => $2))
ON CONFLICT (digest) DO NOTHING
RETURNING true

-- name: delete_used_states
DELETE FROM used_login_state WHERE expires_at < now()

-- name: delete_expired
DELETE FROM credential
WHERE id IN (SELECT id FROM credential WHERE kind <> 'token' AND expires_at < now() ORDER BY expires_at LIMIT 1000)
