"""How the daemons of storms are set: impatient, so that much happens within a minute."""

from collections.abc import Mapping

PREFIX = "storm."

SETTINGS: Mapping[str, object] = {
    "topic_prefix": PREFIX,
    "lease_ttl_s": 3,
    "lease_renew_s": 0.6,
    "sweep_s": 0.5,
    "batch_records": 200,
    "runner_silent_s": 120,
    "dags_scan_s": 5,
    "log_format": "json",
}
