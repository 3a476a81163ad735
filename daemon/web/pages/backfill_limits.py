"""The limits of a backfill as fields of a form."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from tidegate.daemon.web.fields import Fields
from tidegate.daemon.web.form import Field
from tidegate.schemas.backfill import DEFAULT_ACTIVE_RUNS, LAST_PRIORITY, RANGES, Limits, read_limit

DEFAULTS: Mapping[str, Any] = msgspec.structs.asdict(Limits())

LABELS = {
    "max_active_runs": (
        "Active runs at most",
        f"beside other runs; 1 to 1000; empty: max_active_runs of the DAG, at most {DEFAULT_ACTIVE_RUNS}",
    ),
    "max_active_tasks": ("Active tasks at most", "of all its runs together; empty: no limit"),
    "share": ("Share of a pool, percent", "the most slots of a pool for its tasks; empty: no limit"),
    "pool": ("Pool", "in place of the pools that its tasks name"),
    "priority": ("Priority", f"added to the weights of its tasks; 0: as other runs, {LAST_PRIORITY}: after all others"),
    "max_failed_runs": ("Stop after failed dates", "0: never"),
}


def texts_of(limits: Mapping[str, Any]) -> dict[str, str]:
    """The limits as they stand in the fields."""
    texts = {name: "" if limits[name] is None else str(limits[name]) for name in LABELS}
    return {**texts, "share": "" if limits["share"] is None else f"{limits['share'] * 100:g}"}


def limit_fields(texts: Mapping[str, str], problems: Mapping[str, str]) -> list[Field]:
    return [
        Field(name=name, label=label, value=texts.get(name, ""), hint=hint, problem=problems.get(name, ""))
        for name, (label, hint) in LABELS.items()
    ]


def limits_of(fields: Fields) -> dict[str, Any]:
    """The limits that were written; an empty field has the default."""
    written = {name: fields.value(name, partial(read_limit, name)) for name in LABELS}
    return {name: DEFAULTS[name] if value is None else value for name, value in written.items()}


def changed_limits(fields: Fields, shown: Mapping[str, str]) -> dict[str, Any]:
    """The limits whose fields have another text than was shown: what another user changed meanwhile stays."""
    changed = {name for name in LABELS if fields.texts.get(name, "") != shown.get(name, "")}
    limits = {name: value for name, value in limits_of(fields).items() if name in changed}
    if limits.get("max_active_runs", 1) is None:
        fields.problems.setdefault("max_active_runs", f"write {RANGES['max_active_runs']}")
    return limits
