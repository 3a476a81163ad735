-- The page of the audit log leaves out an entry whose change was refused, for which it asks by the request. While the index is
-- built, nothing can be changed that the audit log records.
CREATE INDEX audit_log_refusal ON audit_log ((details ->> 'request_id')) WHERE what = 'was refused';
