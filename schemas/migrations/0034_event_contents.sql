-- A checksum of what the event says: an event with a known id and other data is a conflict. NULL for events that are not compared.
ALTER TABLE event_dedupe ADD COLUMN content integer;
