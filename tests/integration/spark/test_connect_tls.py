"""Spark Connect behind TLS with a certificate of its own, which the task alone knows: its session ends in every way."""

import os
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import trustme

from tests.integration.spark.submissions import Bench, runner_of, until_quiet
from tests.integration.spark.test_connect import TICKING
from tests.tls_door import tls_front
from tidegate.daemon.spark.contract import Phase
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.schemas.dag import FunctionTask

ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"


@pytest.fixture
async def secured(bench: Bench, tmp_path: Path) -> AsyncIterator[Bench]:
    """Submits to the server behind TLS; `ca.pem` is its authority."""
    ca, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(LOOPBACK).configure_cert(context)
    context.set_alpn_protocols(["h2"])
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    behind = int(bench.settings.spark_remote.rstrip("/").rpartition(":")[2])
    async with tls_front(behind, context) as port:
        yield Bench(msgspec.structs.replace(bench.settings, spark_remote=f"sc://{LOOPBACK}:{port}/;use_ssl=true"))


@pytest.mark.parametrize(("how", "phase"), [("kill", Phase.KILLED), ("runner", Phase.FAILED)])
async def test_a_statement_behind_a_private_authority_ends_with_its_attempt(
    how: str, phase: Phase, secured: Bench, tmp_path: Path
) -> None:
    """By a kill, and by the reaper of a runner that was killed; both are processes without the environment of the task."""
    spec = secured.spec(FunctionTask(task_id="tick", env={ROOTS: str(tmp_path / "ca.pem")}), TICKING)
    handle = await secured.submit(spec)
    await secured.until_working()

    if how == "kill":
        await secured.backend(spec.task).kill(handle)
    else:
        os.kill(runner_of(handle), signal.SIGKILL)

    status = await secured.until_ended(spec, handle)
    assert (status.phase, "may go on" in status.reason) == (phase, False)
    await until_quiet(secured)
