-- The groups of the user in the service that logged it in, which give the session its rights; NULL: the row has the rights.
ALTER TABLE credential ADD COLUMN groups text[];
