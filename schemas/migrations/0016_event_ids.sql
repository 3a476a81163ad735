-- The sweep reads the pages of the table in turn. Deleted ids leave room for new ones anywhere in the table, which widens the ranges
-- of a BRIN index for ever: after some weeks it excluded no page.
DROP INDEX event_dedupe_received;
