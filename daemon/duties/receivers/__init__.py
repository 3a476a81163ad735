"""Those who are told what became of runs and tasks, by kind: mail, webhooks, functions of DAG files."""
