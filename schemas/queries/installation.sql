-- name: identity
-- The same on a promoted standby, another one in a copy of the database.
SELECT
    (SELECT system_identifier FROM pg_control_system())
    || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
