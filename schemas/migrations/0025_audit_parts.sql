-- The entries of the audit log about an object and its parts, whose names begin with its own, in any collation.
DROP INDEX audit_log_object;
CREATE INDEX audit_log_object ON audit_log (object text_pattern_ops, id);
