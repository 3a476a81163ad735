"""Finds a Java for Kafka and Spark, and configures their logs."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from subprocess import STDOUT

import anyio

from tidegate.daemon.standalone.process import ServerError

NEEDED = 17
ADVICE = f"install Java {NEEDED} (apt-get install openjdk-{NEEDED}-jre-headless) or set JAVA_HOME to one"
NO_TRACES = "-XX:-UsePerfData"
"""Prevents the performance file that each JVM leaves in the temporary folder."""

LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex{4}
"""
"""The log4j2.properties of a server: warnings, to stderr."""


async def find(environ: Mapping[str, str]) -> Path:
    """The `java` of JAVA_HOME, or else of PATH. Raises ServerError if there is none or it is too old."""
    java = _candidate(environ)
    version = await _version(java)
    if version < NEEDED:
        raise ServerError(f"{java} is Java {version}, but Java {NEEDED} or newer is needed: {ADVICE}")
    return java


def _candidate(environ: Mapping[str, str]) -> Path:
    if home := environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise ServerError(f"JAVA_HOME is {home}, but there is no {java}: {ADVICE}")
        return java
    if found := shutil.which("java", path=environ.get("PATH", "")):
        return Path(found)
    raise ServerError(f"Java was not found: {ADVICE}")


async def _version(java: Path) -> int:
    try:
        answer = await anyio.run_process([str(java), NO_TRACES, "-version"], stderr=STDOUT, check=False)
    except OSError as error:
        raise ServerError(f"{java} cannot be run ({error.strerror}): {ADVICE}") from error
    found = re.search(rb'version "(?:1\.)?(\d+)', answer.stdout)
    if found is None:
        raise ServerError(f"{java} -version prints no version: {ADVICE}")
    return int(found[1])
