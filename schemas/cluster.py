"""The Spark clusters that tasks may name, and why a task cannot run on one."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.schemas.dag import BaseTask, FunctionTask, Name, SqlTask, SubmitTask
from tidegate.schemas.error import RequestError, did_you_mean

SETTING = "TIDEGATE_SPARK_CLUSTERS"
MASTER, REMOTE = "master", "remote"

ADDRESSES = {"spark-connect": REMOTE, "spark-submit": MASTER}
"""The address of a cluster that each backend needs."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The addresses of a cluster: `master` for spark-submit, `remote` of Spark Connect for functions and SQL. It may lack one."""

    master: str = ""
    remote: Annotated[str, Meta(pattern=r"^(sc://.+)?\Z")] = ""


Clusters = Mapping[str, Cluster]
"""By name."""


def read_clusters(text: str) -> Clusters:
    """The clusters of the setting. Raises RequestError, which quotes no address: it may contain a token."""
    try:
        clusters = msgspec.json.decode(text, type=dict[Name, Cluster])
    except (msgspec.MsgspecError, UnicodeError) as error:
        example = '{"nightly": {"master": "spark://m1:7077", "remote": "sc://m1:15002"}}'
        raise RequestError(f"{SETTING} cannot be read: {error}; write JSON like {example}") from error
    for name, cluster in clusters.items():
        if not (cluster.master or cluster.remote):
            raise RequestError(f"{SETTING}: cluster {name!r} needs a master, a remote or both")
    return clusters


def clusters_of_backends(clusters: Clusters) -> dict[str, tuple[str, ...]]:
    """By backend, the clusters on which it can run tasks: those with the address that it needs."""
    return {
        backend: tuple(sorted(name for name, cluster in clusters.items() if getattr(cluster, needed)))
        for backend, needed in ADDRESSES.items()
    }


def cluster_problem(task: BaseTask, clusters: Clusters) -> str | None:
    """Why the task cannot run on the cluster that it names; None if it can, or names none."""
    name = cluster_name(task)
    if not name:
        return None
    if name not in clusters:
        return f"cluster {name!r} is not in {SETTING}{_hint(name, clusters)}"
    needed = MASTER if isinstance(task, SubmitTask) else REMOTE
    if not getattr(clusters[name], needed):
        tasks = "applications need" if isinstance(task, SubmitTask) else "functions and SQL need"
        return f"cluster {name!r} has no {needed} in {SETTING}, which {tasks}"
    return None


def cluster_name(task: BaseTask) -> str:
    """The name of the cluster; empty for the one of `TIDEGATE_SPARK_MASTER` and `TIDEGATE_SPARK_REMOTE`."""
    return task.cluster if isinstance(task, FunctionTask | SqlTask | SubmitTask) else ""


def _hint(name: str, clusters: Clusters) -> str:
    others = f"; there are {', '.join(sorted(clusters))}" if clusters else "; it names none"
    return did_you_mean(name, clusters) or others
