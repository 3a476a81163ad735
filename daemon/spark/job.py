"""The job of a submission on this host: what its runner, and so its task, is given."""

from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.host import secrets_dirs
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.cluster import Cluster, cluster_name, cluster_problem
from tidegate.schemas.error import UnknownClusterError


def job_of(settings: Settings, spec: SubmissionSpec) -> Job:
    """Raises UnknownClusterError for a task whose cluster this host does not know."""
    clusters = settings.clusters
    if (problem := cluster_problem(spec.task, clusters)) is not None:
        raise UnknownClusterError(f"{problem} (on host {settings.host})", cluster_name(spec.task))
    cluster = clusters.get(cluster_name(spec.task), Cluster(master=settings.spark_master, remote=settings.spark_remote))
    return Job(
        spec=spec,
        dags_folder=str(dags_root(settings)),
        spark_remote=cluster.remote,
        spark_master=cluster.master,
        kafka_servers=settings.kafka_servers,
        kafka_security=None if settings.kafka_security.holds_secrets else settings.kafka_security,
        topic_prefix=settings.topic_prefix,
        secrets_dirs=tuple(map(str, secrets_dirs(settings))),
        heartbeat_s=settings.runner_heartbeat_s,
        silent_s=settings.runner_silent_s,
        host=settings.host,
    )
