"""Starts runners that survive the daemon: in a transient unit where systemd runs, else in a session of their own.

A session stays in the control group of the daemon: it survives a stop of the service with `KillMode=process` only.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from uuid import UUID

import anyio

from tidegate.daemon.spark.process import STAMP
from tidegate.daemon.spark.regular_file import DamagedError, open_regular
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import Resources
from tidegate.schemas.error import UnavailableError

ALREADY_CLAIMED = 73
"""Exit code of a runner that found the submission claimed by another one."""

RUNNERS = "the runners"
"""The server name in outages when this host cannot start processes."""

RUNNER = (sys.executable, "-P", "-m", "tidegate.daemon.spark.runner")
SYSTEMD_RUNS = Path("/run/systemd/system").exists()

# None of the daemon's settings, because tasks run foreign code. Programs need these to locate binaries and files.
PASSED_ON = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"),
        *("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"),
        *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KRB5_CONFIG", "KRB5CCNAME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    )
)


RUNTIME_DIR = "XDG_RUNTIME_DIR"
FOR_SYSTEMD = ("PATH", "HOME", RUNTIME_DIR, "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS")
"""The variables that `systemd-run` gets: tasks of the same user can read its environment."""


def environment(environ: Mapping[str, str], spool: Spool) -> dict[str, str]:
    """The environment of a runner and its task: an allow-list, and the stamp."""
    passed_on = {name: value for name, value in environ.items() if name in PASSED_ON or name.startswith("LC_")}
    own = {STAMP: str(spool.submission_id), "TMPDIR": str(spool.work), "PYTHONUNBUFFERED": "1", "PYSPARK_PYTHON": sys.executable}
    return passed_on | own


def unit_name(action: str, submission_id: UUID) -> str:
    """The name of the transient unit of a runner, without its type."""
    return f"tidegate-{action}-{submission_id}"


def limits(resources: Resources | None) -> Iterator[str]:
    """The properties of a unit with these limits. The runner stays when the kernel ends a process for its memory, and says so."""
    if resources is not None and resources.memory_mb is not None:
        yield from (f"MemoryMax={resources.memory_mb}M", "MemorySwapMax=0", "OOMPolicy=continue")
    if resources is not None and resources.cpus is not None:
        yield f"CPUQuota={max(1, round(resources.cpus * 100))}%"


def unit(
    command: Sequence[str], name: str, log: Path, env: Mapping[str, str], *, user: bool, resources: Resources | None = None
) -> list[str]:
    """The command as a transient unit: its name is unique, and its end kills all of its processes."""
    return [
        "systemd-run",
        *(["--user"] if user else []),
        *("--quiet", "--collect", "--service-type=exec", f"--unit={name}"),
        *(f"--property=Standard{stream}=append:{log}" for stream in ("Output", "Error")),
        *(f"--property={limit}" for limit in limits(resources)),
        *(f"--setenv={key}={value}" for key, value in env.items()),
        *("--", *command),
    ]


async def start(action: str, spool: Spool, resources: Resources | None = None) -> None:
    """Start a runner and return when it is independent of the daemon, or found the submission claimed.

    Raises UnavailableError when it does not start.
    """
    env = environment(os.environ, spool)
    command = [*RUNNER, action, str(spool.path)]
    if SYSTEMD_RUNS:
        name = unit_name(action, spool.submission_id)
        # Without permission to start units a session has to do. If the unit runs after all, only one of both gets the claim.
        refusal = await _refusal(unit(command, name, spool.log, env, user=os.getuid() != 0, resources=resources))
        if refusal is None:
            return
        report(refusal.replace(name, "the unit"))
    log = _open(spool.log, is_needed=action == "execute")
    try:
        code = await _run([*command, "--detach"], log, env)
    finally:
        os.close(log)
    # The runner with the claim may have ended already, and have killed a second one before it could read the claim.
    if code not in (0, ALREADY_CLAIMED) and not spool.has_claim():
        problem = f"the runner of {spool.submission_id} did not start (exit code {code}); see {spool.log}"
        raise UnavailableError(problem, server=RUNNERS)


async def _refusal(command: Sequence[str]) -> str | None:
    """Start a unit; why systemd refuses, or None."""
    env = for_systemd(os.environ, Path(f"/run/user/{os.getuid()}"))
    try:
        ended = await anyio.run_process(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env, check=False, start_new_session=True
        )
    except OSError as error:
        return f"{command[0]} could not be started: {error.strerror}"
    if ended.returncode == 0:
        return None
    return " ".join(ended.stderr.decode(errors="replace").split()) or f"exit code {ended.returncode}"


def for_systemd(environ: Mapping[str, str], runtime_dir: Path) -> dict[str, str]:
    """The environment of `systemd-run`. A service with `User=` is not told where the bus of its user is."""
    own = {name: value for name, value in environ.items() if name in FOR_SYSTEMD}
    return {RUNTIME_DIR: str(runtime_dir), **own} if runtime_dir.is_dir() else own


@cache
def report(refusal: str) -> None:
    """Log a refusal of systemd, each once."""
    import structlog  # noqa: PLC0415 - runners import this module and log nothing by it

    hint = "loginctl enable-linger USER of the daemon; until then, only KillMode=process lets tasks survive its restart"
    structlog.get_logger().warning("task_unit_refused", error=refusal, hint=hint)


def _open(log: Path, *, is_needed: bool) -> int:
    """The log to append to; in place of a damaged one that is not needed the null device. Raises UnavailableError."""
    try:
        return open_regular(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except (OSError, DamagedError) as error:
        if isinstance(error, DamagedError) and not is_needed:
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        raise UnavailableError(f"{log} cannot be written: {error}", server=RUNNERS) from error


async def _run(command: Sequence[str], output: int, env: Mapping[str, str]) -> int:
    try:
        ended = await anyio.run_process(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, check=False, start_new_session=True
        )
    except OSError as error:
        raise UnavailableError(f"{command[0]} could not be started: {error.strerror}", server=RUNNERS) from error
    return ended.returncode
