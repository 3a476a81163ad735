"""DAG files: read below the DAG folder, run in a sandbox, watched for changes.

Start with `parse`, the daemon's side. `zygote` is the process it talks to, `execute` what happens to one file in it, `confine`
what the kernel is asked for. `watch` finds out which files changed. The daemon itself never imports a DAG file.
"""
