"""The process of one attempt: executes the task, writes its log, survives the daemon and reports the outcome."""
