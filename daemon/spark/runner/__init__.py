"""The process around one attempt: it executes the task, keeps its log, outlives the daemon, and tells how it ended."""
