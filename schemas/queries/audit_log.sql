-- name: record
INSERT INTO audit_log (who, what, object, details, at)
SELECT
    coalesce($5::text, $4::uuid::text, $6::text), done.what, done.object, done.details || $8::jsonb,
    coalesce($7::timestamptz, now())
FROM unnest($1::text[], $2::text[], $3::jsonb[]) AS done (what, object, details)

-- name: list
-- $2 is an object; the entries about its parts belong to it, as those about `DAG d, run_id r` to `DAG d`. The bounds are for the
-- index; the upper one follows all names of parts.
-- Without an entry that was written before its change, which the same request was then refused: that is an entry of its own.
-- An entry with a time or details that no program writes was changed; it is listed, too.
SELECT
    id, in_calendar(at) AS at, who, what, object,
    CASE jsonb_typeof(details) WHEN 'object' THEN details ELSE jsonb_build_object('details', details) END AS details
FROM audit_log AS entry
WHERE ($1::text IS NULL OR who = $1)
  AND (
      $2::text IS NULL
      OR (object ~>=~ $2 AND object ~<~ ($2 || ',!') AND (object = $2 OR starts_with(object, $2 || ', ')))
  )
  AND ($3::timestamptz IS NULL OR at >= $3)
  AND ($4::timestamptz IS NULL OR at <= $4)
  AND ($5::bigint IS NULL OR id < $5)
  AND NOT (details ? 'request' AND details ? 'body' AND EXISTS (
      SELECT FROM audit_log AS refusal
      WHERE refusal.what = 'was refused' AND refusal.details ->> 'request_id' = entry.details ->> 'request_id'
  ))
ORDER BY id DESC
LIMIT $6

-- name: verify
-- Of the next $3 links after $1, whose hash is $2, the last one and each with a problem: whether it follows the one before, and
-- is that of its entry.
WITH page AS (
    SELECT number, audit_id, hash FROM audit_chain WHERE number > $1 ORDER BY number LIMIT $3
),
link AS (
    SELECT
        number, audit_id, hash, lag(hash, 1, $2::bytea) OVER (ORDER BY number) AS previous,
        lag(number, 1, $1::bigint) OVER (ORDER BY number) + 1 = number AS follows,
        lead(number) OVER (ORDER BY number) IS NULL AS is_last
    FROM page
),
checked AS (
    SELECT
        link.number, link.audit_id, link.hash, link.follows, entry.id IS NOT NULL AS has_entry,
        coalesce(link.hash = audit_digest(link.previous, entry), false) AS matches, link.is_last
    FROM link
    LEFT JOIN audit_log AS entry ON entry.id = link.audit_id
)
SELECT number, audit_id, hash, follows, has_entry, matches
FROM checked
WHERE is_last OR NOT (follows AND matches)
ORDER BY number

-- name: link_before_newest
-- The link before the newest $1 ones.
SELECT number, audit_id, hash FROM audit_chain ORDER BY number DESC OFFSET $1 LIMIT 1

-- name: has_link
SELECT EXISTS (SELECT FROM audit_chain WHERE number = $1 AND hash = $2)

-- name: links_of
-- The links of these entries: whether the link before is there, and whether each is that of its entry.
SELECT
    link.number, link.audit_id, link.hash, link.number = 1 OR previous.number IS NOT NULL AS follows, true AS has_entry,
    link.hash = audit_digest(coalesce(previous.hash, ''), entry) AS matches
FROM audit_log AS entry
JOIN audit_chain AS link ON link.audit_id = entry.id
LEFT JOIN audit_chain AS previous ON previous.number = link.number - 1
WHERE entry.id = ANY ($1::bigint[])

-- name: unchained
-- The last of the next $2 entries after $1, and the first of them without a link.
SELECT max(entry.id) AS last, min(entry.id) FILTER (WHERE link.audit_id IS NULL) AS unchained
FROM (SELECT id FROM audit_log WHERE id > $1 ORDER BY id LIMIT $2) AS entry
LEFT JOIN audit_chain AS link ON link.audit_id = entry.id
