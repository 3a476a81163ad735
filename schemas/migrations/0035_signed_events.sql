-- From this offset on, an event with the source of Tidegate counts only with the signature of a daemon. NULL for a partition without
-- dataset events, and while a daemon of a former version lives, which does not sign.
ALTER TABLE lease ADD COLUMN signed_from bigint;
