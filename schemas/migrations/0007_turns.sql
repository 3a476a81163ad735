-- What had the last turn where more than one thing asked for a run of the DAG: the queue, events, or the timetable.
ALTER TABLE dag ADD COLUMN turn text;
