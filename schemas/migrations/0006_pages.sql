-- The events that a run made, for the page of an event.
CREATE INDEX dataset_event_producer ON dataset_event (source_dag_id, source_run_id, id) WHERE source_dag_id IS NOT NULL;
