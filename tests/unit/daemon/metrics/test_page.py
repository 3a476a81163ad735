"""The page of metrics: its rules for Prometheus use metrics and values of labels that exist."""

import re
from pathlib import Path

from tidegate.daemon.measure import METRICS

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "daemon/docs/metrics.md").read_text()
RULES = re.findall(r"- alert: (\w+)\n +expr: (.*)\n(?: +for: .*\n)? +annotations:\n +summary: (.*)", PAGE)
PARTS = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
SAMPLES = {f"{metric.name}{part}": metric for metric in METRICS for part in PARTS[metric.kind]}


def test_each_alert_is_complete() -> None:
    assert len(RULES) == PAGE.count("- alert:") >= 12
    assert len({name for name, _, _ in RULES}) == len(RULES)


def test_alerts_use_metrics_that_exist() -> None:
    used = {name for _, expression, _ in RULES for name in re.findall(r"\btidegate_\w+", expression)}

    assert used - SAMPLES.keys() == set()


def test_alerts_select_and_group_by_labels_that_exist() -> None:
    unknown = [
        (name, label, value)
        for _, expression, _ in RULES
        for name, label, value in re.findall(r'(tidegate_\w+)\{(\w+)="(\w+)"\}', expression)
        if value not in {known.name: known.values for known in SAMPLES[name].labels}.get(label, ())
    ]
    grouped = {
        (name, label)
        for _, expression, _ in RULES
        for name, label in re.findall(r"(tidegate_\w+)[^)]*\)+ by \((\w+)\)", expression)
        if label not in ("le", *(known.name for known in SAMPLES[name].labels))
    }

    assert unknown == []
    assert grouped == set()
