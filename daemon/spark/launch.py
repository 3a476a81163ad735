"""Starts runners that survive the daemon: in a transient unit where systemd runs, else in a session of their own.

A session stays in the control group of the daemon: it survives a stop of the service with `KillMode=process` only.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import UUID

import anyio
from anyio import to_thread

from tidegate.daemon.dag_access import variables
from tidegate.daemon.spark.process import STAMP
from tidegate.daemon.spark.regular_file import DamagedError, open_regular
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import Resources
from tidegate.schemas.error import RUNNERS, NotStartedError, UnavailableError

T = TypeVar("T")

ALREADY_CLAIMED = 73
"""Exit code of a runner that found the submission claimed by another one."""

RUNNER = (sys.executable, "-P", "-m", "tidegate.daemon.spark.runner")
SYSTEMD_RUNS = Path("/run/systemd/system").exists()

LIMIT_S = 120.0
"""More than a start takes on a host with much to do. Without a limit a disk or a systemd that hangs would hold up all submits."""

NO_BUS = ("Failed to connect to ", "Failed to create bus connection")
"""How `systemd-run` begins to say that it could not ask systemd."""

ENDED = (b"inactive", b"failed")
"""The states of a unit that does not run any more."""

# None of the daemon's settings, because tasks run foreign code. Programs need these to locate binaries and files.
PASSED_ON = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"),
        *("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"),
        *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KRB5_CONFIG", "KRB5CCNAME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    )
)


RUNTIME_DIR = "XDG_RUNTIME_DIR"
FOR_SYSTEMD = ("PATH", "HOME", RUNTIME_DIR, "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS")
"""The variables that `systemd-run` gets: tasks of the same user can read its environment."""


def environment(environ: Mapping[str, str], spool: Spool) -> dict[str, str]:
    """The environment of a runner and its task: an allow-list, the variables of its DAG file, and the stamp.

    With SPT_NOENV, `setproctitle` does not write a title over the environment, and so over the stamp.
    """
    passed_on = {name: value for name, value in environ.items() if name in PASSED_ON or name.startswith("LC_")}
    own = {STAMP: str(spool.submission_id), "TMPDIR": str(spool.tmp), "PYTHONUNBUFFERED": "1", "SPT_NOENV": "1"}
    return variables(environ) | passed_on | own | {"PYSPARK_PYTHON": sys.executable}


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


class Refusal(NamedTuple):
    """Why `systemd-run` started no unit. A unit that systemd was asked for may still run, for example after a timeout."""

    reason: str
    was_asked: bool


async def start(action: str, spool: Spool, resources: Resources | None = None, *, options: Sequence[str] = ()) -> None:
    """Start a runner and return when it is independent of the daemon, or found the submission claimed. `options` are its own.

    Raises UnavailableError when it does not start within `LIMIT_S`; NotStartedError if it cannot start later either.
    """
    with anyio.move_on_after(LIMIT_S) as limit:
        await _start(action, spool, resources, options)
    if limit.cancelled_caught:
        raise UnavailableError(f"the runner of {spool.submission_id} has not started for {LIMIT_S:g} s", server=RUNNERS)


async def check() -> None:
    """Raises NotStartedError when this host can start no process."""
    await _run(["true"], subprocess.DEVNULL, {})


async def _start(action: str, spool: Spool, resources: Resources | None, options: Sequence[str]) -> None:
    """As `start`, without a limit."""
    env = await _in_thread(lambda: environment(os.environ, spool))
    command = [*RUNNER, action, str(spool.path), *options]
    may_run = False
    if SYSTEMD_RUNS:
        name = unit_name(action, spool.submission_id)
        # Without permission to start units a session has to do. If the unit runs after all, only one of both gets the claim.
        refusal = await _refusal(unit(command, name, spool.log, env, user=os.getuid() != 0, resources=resources))
        if refusal is None:
            return
        report(refusal.reason.replace(name, "the unit"))
        may_run = refusal.was_asked
    try:
        await _start_session(command, spool, env, is_log_needed=action == "execute")
    except NotStartedError as error:
        if not may_run:
            raise
        raise UnavailableError(str(error), server=error.server) from error


async def _start_session(command: Sequence[str], spool: Spool, env: Mapping[str, str], *, is_log_needed: bool) -> None:
    """Start a runner in a session of its own. Raises NotStartedError."""
    log = await _in_thread(lambda: _open(spool.log, is_needed=is_log_needed))
    try:
        code = await _run([*command, "--detach"], log, env)
    finally:
        os.close(log)
    # The runner with the claim may have ended already, and have killed a second one before it could read the claim.
    if code not in (0, ALREADY_CLAIMED) and not await _in_thread(spool.has_claim):
        problem = f"the runner of {spool.submission_id} did not start (exit code {code}); see {spool.log}"
        raise NotStartedError(problem, server=RUNNERS)


async def _in_thread(call: Callable[[], T]) -> T:
    """A disk that hangs holds up this start alone, until its limit."""
    return await to_thread.run_sync(call, abandon_on_cancel=True)


async def has_ended(action: str, spool: Spool) -> bool:
    """Whether systemd says that the unit of a runner, which was started, has ended: it never runs again."""
    if not SYSTEMD_RUNS:
        return False
    user = ["--user"] if os.getuid() != 0 else []
    command = ["systemctl", *user, "is-active", unit_name(action, spool.submission_id)]
    try:
        ended = await _ask_systemd(command)
    except OSError:
        return False
    return ended.stdout.strip() in ENDED


async def _refusal(command: Sequence[str]) -> Refusal | None:
    """Start a unit; why it was not started, or None."""
    try:
        ended = await _ask_systemd(command)
    except OSError as error:
        return Refusal(f"{command[0]} could not be started: {error.strerror}", was_asked=False)
    if ended.returncode == 0:
        return None
    reason = " ".join(ended.stderr.decode(errors="replace").split()) or f"exit code {ended.returncode}"
    return Refusal(reason, was_asked=not reason.startswith(NO_BUS))


async def _ask_systemd(command: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """Raises OSError."""
    env = for_systemd(os.environ, Path(f"/run/user/{os.getuid()}"))
    return await anyio.run_process(command, stdin=subprocess.DEVNULL, env=env, check=False, start_new_session=True)


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
    """The log to append to; in place of a damaged one that is not needed the null device. Raises NotStartedError."""
    try:
        return open_regular(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except (OSError, DamagedError) as error:
        if isinstance(error, DamagedError) and not is_needed:
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        raise NotStartedError(f"{log} cannot be written: {error}", server=RUNNERS) from error


async def _run(command: Sequence[str], output: int, env: Mapping[str, str]) -> int:
    """The exit code. Raises NotStartedError."""
    try:
        ended = await anyio.run_process(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, check=False, start_new_session=True
        )
    except OSError as error:
        raise NotStartedError(f"{command[0]} could not be started: {error.strerror}", server=RUNNERS) from error
    return ended.returncode
