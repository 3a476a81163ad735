"""The REST API of the YARN ResourceManager: applications are found by their tags, and killed.

It is at the addresses of `yarn-site.xml`. A cluster with Kerberos refuses it.
"""

import getpass
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener
from xml.etree import ElementTree

from tidegate.daemon.spark.runner.failure_reason import TaskError

FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
OF_SPARK = "spark.hadoop."
UNENDED = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
"""The states of applications that have not ended."""

REQUEST_S = 5.0
POLL_S = 0.2

_RM = "yarn.resourcemanager"
_VARIABLE = re.compile(r"\$\{([\w.-]+)\}")
_DIRECT = build_opener(ProxyHandler({}))


class RestError(TaskError):
    """No active ResourceManager has confirmed the end of the applications over REST."""


def end(addresses: Sequence[str], tags: Iterable[str], user: str, within_s: float) -> None:
    """Kill the applications that have one of the tags, and return when the active ResourceManager says that none is left.

    Only the active one knows: one that starts or is on standby lists no applications. Raises RestError.
    """
    until, problems = time.monotonic() + within_s, list[str]()
    for address in addresses:
        try:
            _require_active(address)
            _end_at(address, ",".join(tags), user, until)
        except (OSError, ValueError, LookupError, TypeError) as error:
            problems.append(f"{address}: {_said(error)}")
        else:
            return
    raise RestError("; ".join(problems) or "yarn-site.xml names no ResourceManager")


def _require_active(address: str) -> None:
    state = _request(address, "/info")["clusterInfo"]["haState"]
    if state != "ACTIVE":
        raise ValueError(f"its state is {state}")


def _end_at(address: str, tags: str, user: str, until: float) -> None:
    asked = set[str]()
    while left := _applications(address, tags):
        for id_ in left.keys() - asked:
            _request(address, f"/apps/{id_}/state?{urlencode({'user.name': user})}", b'{"state":"KILLED"}')
            asked.add(id_)
        if time.monotonic() > until:
            raise ValueError(", ".join(f"{id_} is {state}" for id_, state in sorted(left.items())))
        time.sleep(POLL_S)


def _applications(address: str, tags: str) -> Mapping[str, str]:
    """The states of the applications that have not ended, by id."""
    found = _request(address, f"/apps?{urlencode({'applicationTags': tags, 'states': UNENDED})}")["apps"] or {}
    return {str(each["id"]): str(each["state"]) for each in found.get("app", ())}


def _request(address: str, path: str, body: bytes | None = None) -> Any:
    method, headers = "GET" if body is None else "PUT", {"Content-Type": "application/json"}
    request = Request(f"{address}/ws/v1/cluster{path}", body, headers, method=method)  # noqa: S310 - http or https
    with _DIRECT.open(request, timeout=REQUEST_S) as answer:
        return json.load(answer)


def _said(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"HTTP {error.code} {error.reason}"
    reason = getattr(error, "reason", error)
    if isinstance(error, LookupError | TypeError | json.JSONDecodeError):
        return "it does not answer as a ResourceManager"
    return getattr(reason, "strerror", None) or str(reason)


def user_of(env: Mapping[str, str]) -> str:
    """The user of Hadoop where it has no logins."""
    return env.get("HADOOP_USER_NAME") or getpass.getuser()


def addresses(env: Mapping[str, str], conf: Mapping[str, str]) -> list[str]:
    """The addresses of all ResourceManagers, by `yarn-site.xml` and the settings of Spark, which override it."""
    found = _yarn_site(env) | {name.removeprefix(OF_SPARK): text for name, text in conf.items() if name.startswith(OF_SPARK)}
    is_https = _value(found, "yarn.http.policy") == "HTTPS_ONLY"
    return [f"{'https' if is_https else 'http'}://{place}" for place in _places(found, is_https=is_https)]


def _places(found: Mapping[str, str], *, is_https: bool) -> Iterator[str]:
    name, port = (f"{_RM}.webapp.https.address", 8090) if is_https else (f"{_RM}.webapp.address", 8088)
    ids = _value(found, f"{_RM}.ha.rm-ids").split(",") if _value(found, f"{_RM}.ha.enabled") == "true" else [""]
    for id_ in map(str.strip, ids):
        suffix = f".{id_}" if id_ else ""
        if place := _value(found, name + suffix):
            yield place
        elif host := _value(found, f"{_RM}.hostname{suffix}"):
            yield f"{host}:{port}"


def _value(found: Mapping[str, str], name: str) -> str:
    """The setting, with the values of the variables in it."""
    return _VARIABLE.sub(lambda variable: found.get(variable[1], ""), found.get(name, "")).strip()


def _yarn_site(env: Mapping[str, str]) -> dict[str, str]:
    for folder in filter(None, map(env.get, FOLDERS)):
        with suppress(OSError, ElementTree.ParseError):
            root = ElementTree.parse(Path(folder, "yarn-site.xml")).getroot()  # noqa: S314 - a file of the operator
            texts = ((each.findtext("name", ""), each.findtext("value", "")) for each in root.iter("property"))
            return {name.strip(): text.strip() for name, text in texts}
    return {}
