"""Starting a runner so that it outlives the daemon: a transient unit where systemd runs, a session of its own elsewhere."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from tidegate.daemon.spark.process import STAMP
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.error import UnavailableError

ALREADY_CLAIMED = 73
"""Exit code of a runner that found the submission claimed by another one."""

RUNNERS = "the runners"
"""What is said to be away when processes cannot be started on this host."""

RUNNER = (sys.executable, "-P", "-m", "tidegate.daemon.spark.runner")
SYSTEMD_RUNS = Path("/run/systemd/system").exists()

# Nothing of the daemon's own settings: tasks are other people's code. Programs need these to find themselves and their files.
PASSED_ON = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"),
        *("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"),
        *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KRB5_CONFIG", "KRB5CCNAME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    )
)


def environment(environ: Mapping[str, str], spool: Spool) -> dict[str, str]:
    """What a runner and its task find in their environment: little, and the stamp."""
    passed_on = {name: value for name, value in environ.items() if name in PASSED_ON or name.startswith("LC_")}
    own = {STAMP: str(spool.submission_id), "TMPDIR": str(spool.work), "PYTHONUNBUFFERED": "1", "PYSPARK_PYTHON": sys.executable}
    return passed_on | own


def unit(command: Sequence[str], name: str, log: Path, env: Mapping[str, str], *, user: bool) -> list[str]:
    """The same command as a transient unit: its name is unique, and its end takes everything it started with it."""
    return [
        "systemd-run",
        *(["--user"] if user else []),
        *("--quiet", "--collect", "--service-type=exec", f"--unit={name}"),
        *(f"--property=Standard{stream}=append:{log}" for stream in ("Output", "Error")),
        *(f"--setenv={key}={value}" for key, value in env.items()),
        *("--", *command),
    ]


async def start(action: str, spool: Spool) -> None:
    """Start a runner and return when it stands on its own feet; one that finds the work claimed already is fine.

    Raises UnavailableError when it does not start.
    """
    env = environment(os.environ, spool)
    command = [*RUNNER, action, str(spool.path)]
    if SYSTEMD_RUNS:
        name = f"tidegate-{action}-{spool.submission_id}"
        # Where we may not start units, a plain session has to do. If the unit runs after all, the claim keeps the second one out.
        if await _run(unit(command, name, spool.log, env, user=os.getuid() != 0), subprocess.DEVNULL, os.environ) == 0:
            return
    log = _open(spool.log)
    try:
        code = await _run([*command, "--detach"], log, env)
    finally:
        os.close(log)
    # The one that got the claim may have ended already, and taken a second one that was about to look with it.
    if code not in (0, ALREADY_CLAIMED) and spool.claimed() is None:
        problem = f"the runner of {spool.submission_id} did not start (exit code {code}); see {spool.log}"
        raise UnavailableError(problem, server=RUNNERS)


def _open(log: Path) -> int:
    try:
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnavailableError(f"{log} cannot be written: {error.strerror}", server=RUNNERS) from error


async def _run(command: Sequence[str], output: int, env: Mapping[str, str]) -> int:
    try:
        ended = await anyio.run_process(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, check=False, start_new_session=True
        )
    except OSError as error:
        raise UnavailableError(f"{command[0]} could not be started: {error.strerror}", server=RUNNERS) from error
    return ended.returncode
