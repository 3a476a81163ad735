-- The events that a run made, for the page of an event.
CREATE INDEX dataset_event_producer ON dataset_event (source_dag_id, source_run_id, id) WHERE source_dag_id IS NOT NULL;

-- The entries of the audit log of a user, and about an object, newest first.
CREATE INDEX audit_log_who ON audit_log (who, id);
CREATE INDEX audit_log_object ON audit_log (object, id);

-- The outlets of a DAG, for the graph of datasets.
CREATE INDEX task_outlet_dataset_reference_dag ON task_outlet_dataset_reference (dag_id);
