"""What is asked of a large installation: each page, each form and each endpoint that reads, of objects that exist."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from tests.benchmarks.large_installation import WIDE, Facts
from tidegate.daemon.api.openapi import PREFIX
from tidegate.daemon.api.routes import ENDPOINTS
from tidegate.daemon.gateway import cursor
from tidegate.daemon.gateway.endpoint import Act, Params
from tidegate.daemon.gateway.lists import Listed, filters_of
from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.screen import Screen

Query: TypeAlias = Mapping[str, Any]
Queries: TypeAlias = Mapping[str, Query]
"""Queries by their names in the results."""

HOT_URI, QUIET_URI = "lake://area_0/table_000000", "lake://area_7/table_000007"

WITH_QUERY = frozenset({"/dataset", "/queue/pool", "/queue/slots", "/topics/resume", f"{PREFIX}/events"})
"""Paths that need a query."""


class After(NamedTuple):
    """A place in a list: its name, and the key of the row before."""

    list: str
    key: tuple[object, ...]


class Asked(msgspec.Struct, frozen=True):
    """A request: its name in the results, and its address."""

    what: str
    address: str


def requests(facts: Facts) -> list[Asked]:
    """The requests; of lists also their middle, near their end, and with filters."""
    pages = [screen.read if isinstance(screen, Screen) else screen.preview for screen in SCREENS]
    read = [endpoint for endpoint in ENDPOINTS if not isinstance(endpoint, Act)]
    queries = _queries(facts)
    found = [*((page.path, page.params) for page in pages), *((f"{PREFIX}{each.path}", each.params) for each in read)]
    return [asked for path, params in found for asked in _of_path(path, facts, _with_cursors(queries.get(path, {}), params))]


def _with_cursors(queries: Queries, params: type[Params]) -> Queries:
    """The queries with the cursors that a list with these parameters gives."""
    return {name: {**query, **_cursor(query, params)} for name, query in queries.items()}


def _cursor(query: Query, params: type[Params]) -> Query:
    if not isinstance(after := query.get("cursor"), After):
        return {}
    wanted = msgspec.convert({name: value for name, value in query.items() if name != "cursor"}, params, strict=False)
    return {"cursor": cursor.encode(after.list, filters_of(wanted) if isinstance(wanted, Listed) else "", *after.key)}


def _of_path(path: str, facts: Facts, queries: Queries) -> Iterator[Asked]:
    for subject in _subjects(path, facts):
        address = path.format_map({name: quote(str(value), safe="") for name, value in subject.items()})
        if path not in WITH_QUERY:
            yield Asked(address, address)
        for name, query in queries.items():
            yield Asked(f"{address} ({name})", f"{address}?{urlencode(query)}")


def _subjects(path: str, facts: Facts) -> list[Mapping[str, Any]]:
    """The values for the parameters of a path."""
    special: Mapping[str, list[Mapping[str, Any]]] = {
        "{run_id}": _run_subjects(path, facts),
        "/versions/": [{"dag_id": "hot", "number": 50}, {"dag_id": "wide", "number": 1}],
        "{dag_id}": [{"dag_id": dag_id} for dag_id in ("hot", "wide", "backlog", "dag_000300")],
        "{number}": [{"number": facts.event}, {"number": facts.hot_event}],
        "{backfill_id}": [{"backfill_id": 1}, {"backfill_id": facts.running_backfill}],
    }
    found = next((subjects for part, subjects in special.items() if part in path), None)
    return found or [{"id": facts.letters, "name": "default_pool"}]


def _run_subjects(path: str, facts: Facts) -> list[Mapping[str, Any]]:
    """Runs, each with a task."""
    last = f"group_{WIDE // 100 - 1}.task_{WIDE - 1}"
    found = [("hot", facts.failed, "load"), ("hot", facts.running, "report"), ("wide", facts.wide, last)]
    return [{"dag_id": dag_id, "run_id": run_id, "task_id": task_id} for dag_id, run_id, task_id in found]


def _queries(facts: Facts) -> Mapping[str, Queries]:
    """By path, the queries of its further requests. Lists of the API and of the pages have the same filters."""
    both = {**_of_dags(facts), **_of_datasets(facts), **_of_operators(facts), **_of_backfills(facts)}
    return {**both, **{f"{PREFIX}{path}": queries for path, queries in both.items()}, **_of_pages(), **_of_api(facts)}


def _of_dags(facts: Facts) -> Mapping[str, Queries]:
    middle = f"{facts.dags // 2:06}"
    return {
        "/dags": {
            "in the middle": _after("dags", f"dag_{middle}"),
            "near the end": _after("dags", f"dag_{facts.dags * 99 // 100:06}"),
            "search": {"search": middle},
            "search, no match": {"search": "absent"},
            "500": {"limit": 500},
        },
        "/dags/{dag_id}/runs/{run_id}/tasks": {"500": {"limit": 500}, "failed": {"state": "failed"}},
        "/import-errors": {"near the end": _after("import errors", "team_9/a")},
    }


def _of_datasets(facts: Facts) -> Mapping[str, Queries]:
    middle = facts.datasets // 2
    events: Queries = {
        "of many": {"uri": HOT_URI},
        "of many, in the middle": {"uri": HOT_URI, **_after("events", (facts.hot_event + 2611 * 10**12) // 2)},
        "of many, by id": {"uri": HOT_URI, "event_id": "e-10"},
        "of few": {"uri": QUIET_URI},
    }
    return {
        "/datasets": {
            "in the middle": _after("datasets", f"lake://area_{middle % 100}/table_{middle:06}"),
            "500": {"limit": 500},
        },
        "/dataset": events,
        "/events": events,
        "/datasets/graph": {"around a dataset": {"uri": HOT_URI}, "around a DAG": {"dag_id": "backlog"}},
    }


def _of_operators(facts: Facts) -> Mapping[str, Queries]:
    return {
        "/dead-letters": {
            **_places("dead letters", facts.letters),
            "of a reason": {"reason": "invalid"},
            "of a reason, none": {"reason": "wrong_token"},
            "of a topic, none": {"topic": "absent", "state": "all"},
        },
        "/notifications": {
            **_places("notifications", facts.notifications),
            "of a DAG": {"dag_id": "wide"},
            "failed": {"failed": "true"},
        },
        "/audit": {
            **_places("audit", facts.audits),
            "of a user": {"who": "user_7"},
            "of a user, none": {"who": "absent"},
            "of an object": {"object": "DAG dag_000007"},
            "before all": {"until": "2020-01-01T00:00:00Z"},
        },
    }


def _of_backfills(facts: Facts) -> Mapping[str, Queries]:
    return {
        "/backfills": {**_places("backfills", facts.backfills), "cancelled": {"state": "cancelled"}, "none": {"state": "planned"}}
    }


def _of_pages() -> Mapping[str, Queries]:
    day = (datetime.now(UTC) - timedelta(days=15)).date()
    pools: Queries = {
        "default": {"name": "default_pool"},
        "small": {"name": "pool_5"},
        "500": {"name": "default_pool", "limit": 500},
    }
    return {
        "/dags/{dag_id}": {
            "200 runs of 500 tasks": {"runs": 200, "rows": 500},
            "200 runs of the last tasks": {"runs": 200, "rows": 500, "tasks": WIDE - 500},
            "of a day": {"at": day},
        },
        "/dags/{dag_id}/history": {"500 runs": {"runs": 500}},
        "/dags/{dag_id}/graph": {"of a group": {"group": "group_7"}},
        "/dags/{dag_id}/runs/{run_id}": {"500 tasks": {"limit": 500}, "failed tasks": {"state": "failed"}},
        "/backfills/{backfill_id}": {"failed dates": {"state": "failed", "rows": 500}, "of a day": {"day": day}},
        "/backfills/new": {"a month": {"dag": "hot", "start": "2013-01-01", "end": "2013-01-31", "reprocess": "completed"}},
        "/queue/pool": pools,
        "/queue/slots": {"default": pools["default"]},
        "/topics/resume": {"of a partition": {"partition": "tidegate.dataset-updated/0"}},
        "/dead-letters/replay": {"of a reason": {"reason": "invalid"}},
        "/dead-letters/discard": {"of a reason": {"reason": "invalid"}},
    }


def _of_api(facts: Facts) -> Mapping[str, Queries]:
    found: Mapping[str, Queries] = {
        "/runs": {
            "in the middle": _after("runs", *facts.middle_run),
            "near the end": _after("runs", *facts.early_run),
            "failed": {"state": "failed"},
            "of a DAG": {"dag_id": "hot"},
            "of a DAG, queued": {"dag_id": "hot", "state": "queued"},
            "of a small DAG": {"dag_id": "dag_000001"},
            "of a small DAG, failed": {"dag_id": "dag_000001", "state": "failed"},
            "of a backfill": {"backfill_id": 1},
            "of a type": {"run_type": "dataset"},
            "of a type, none": {"run_type": "backfill"},
            "of a time": {"since": "2020-01-01T00:00:00Z", "until": "2020-01-02T00:00:00Z"},
        },
        "/deadlines": {
            **_places("deadlines", facts.deadlines),
            "missed": {"missed": "true"},
            "of a DAG": {"dag_id": "wide"},
            "of a DAG, missed": {"dag_id": "wide", "missed": "true"},
        },
        "/datasets": {"of a prefix": {"prefix": "lake://area_7/"}},
        "/backfills/{backfill_id}/dates": {"failed": {"state": "failed", "limit": 500}},
        "/pools/{name}/queue": {"500": {"limit": 500}},
        "/audit/verification": {
            "in the middle": _after("audit verification", facts.audits // 2, "", None),
            "after the chain": _after("audit verification", facts.audits, "", 0),
        },
    }
    return {f"{PREFIX}{path}": queries for path, queries in found.items()}


def _places(list_: str, last: int) -> Queries:
    """The middle of a list by falling numbers, and near its end."""
    return {"in the middle": _after(list_, last // 2), "near the end": _after(list_, 20)}


def _after(list_: str, *key: object) -> Query:
    """The rows of a list after this key."""
    return {"cursor": After(list_, key)}
