"""The state machine of tasks: pure."""
