"""An application on YARN or Kubernetes: its stamp there, by which any process ends it.

A driver that is killed leaves it: one that waits in a queue of YARN gets containers later, and executors on Kubernetes leave pods
and config maps. On a standalone cluster an application ends with the connection of its driver.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from tidegate.daemon.spark.runner import yarn_rest
from tidegate.daemon.spark.spool import Job

TAGS, APPLICATION_ID = "spark.yarn.tags", "spark.app.id"
CLIENT = "tidegate.daemon.spark.runner.cluster_client"
PROPERTIES = "ending.properties"
PAUSE_S = 1.0


def stamp_of(submission_id: UUID) -> str:
    """A tag of YARN, which has lower case, and a label of Kubernetes."""
    return f"tidegate-{submission_id}"


def is_on_yarn(job: Job) -> bool:
    return job.spark_master.startswith("yarn")


def is_on_kubernetes(job: Job) -> bool:
    return job.spark_master.startswith("k8s://")


def is_stamped(job: Job) -> bool:
    """Whether the cluster keeps the application of a driver that was killed."""
    return is_on_yarn(job) or is_on_kubernetes(job)


def stamps(job: Job, tags: str) -> dict[str, str]:
    """The settings that stamp the application. `tags` are those of the author or the operator, which it has as well."""
    stamp = stamp_of(job.spec.submission_id)
    if is_on_yarn(job):
        return {TAGS: f"{tags},{stamp}" if tags else stamp}
    return {APPLICATION_ID: stamp} if is_on_kubernetes(job) else {}


class Ending:
    """The end of the applications of these submissions, with the environment and the settings of the task."""

    def __init__(self, job: Job, submissions: Iterable[UUID], env: Mapping[str, str], conf: Mapping[str, str]) -> None:
        self._job, self._env, self._conf = job, env, conf
        self._stamps = [stamp_of(submission_id) for submission_id in submissions]

    def problem(self, properties: Path, within_s: float) -> str:
        """End them, again until the cluster confirms it; why they may go on, empty once none does.

        `properties` is a file with the settings, for the clients of Spark.
        """
        until, problem = time.monotonic() + within_s, ""
        while (left_s := until - time.monotonic()) > 0:
            try:
                problem = self._try(properties, left_s)
            except subprocess.TimeoutExpired:
                problem = problem or f"it did not confirm the end within {within_s:g} s"
            if not problem:
                return ""
            time.sleep(min(PAUSE_S, max(0.0, until - time.monotonic())))
        where = "YARN" if is_on_yarn(self._job) else f"Kubernetes at {self._job.spark_master.removeprefix('k8s://')}"
        return f"its application on {where} may go on ({self._stamps[0]}): {problem or 'no time was left to end it'}"

    def _try(self, properties: Path, within_s: float) -> str:
        if not is_on_yarn(self._job):
            return self._by_client(properties, within_s)
        try:
            places = yarn_rest.addresses(self._env, self._conf)
            yarn_rest.end(places, self._stamps, yarn_rest.user_of(self._env), within_s)
        except yarn_rest.RestError as error:
            return (problem := self._by_client(properties, within_s)) and f"{error}; {problem}"
        return ""

    def _by_client(self, properties: Path, within_s: float) -> str:
        """Why the clients of Spark could not end them; empty if they did. Raises TimeoutExpired."""
        options = f"--master {self._job.spark_master} --properties-file {properties} --load-spark-defaults pyspark-shell"
        command = [sys.executable, "-P", "-m", CLIENT, *self._stamps]
        env = {**self._env, "PYSPARK_SUBMIT_ARGS": options}
        with subprocess.Popen(  # noqa: S603 - this interpreter
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        ) as client:
            try:
                _, output = client.communicate(timeout=within_s)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(client.pid, signal.SIGKILL)
                raise
        return _last_line(output.decode(errors="replace")) if client.returncode else ""


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "the client of the cluster crashed")


def default_of(setting: str, folder: Path) -> str:
    """The value in `spark-defaults.conf` of the folder; empty without one."""
    with suppress(OSError, UnicodeDecodeError):
        for line in (folder / "spark-defaults.conf").read_text().splitlines():
            if found := re.match(rf"\s*{re.escape(setting)}\s*[\s=:]\s*(.*?)\s*$", line):
                return found[1]
    return ""
