"""DAG files: read from the DAG folder, executed in a sandbox, watched for changes. The daemon never imports a DAG file.

Start with `parse`, the daemon's side. `zygote` is the process that forks sandboxes, `minder` ends them in time, `execute` runs
one file in a sandbox, `confine` has the kernel calls for isolation, `isolation` says which means a host has, and `watch` detects
changed files.
"""
