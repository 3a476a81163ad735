"""Finding Java: which one, and what is said when there is none."""

import os
from pathlib import Path

import pytest

from tidegate.daemon.standalone import java
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.process import ServerError

ADVICE = r"install Java 17 \(apt-get install openjdk-17-jre-headless\) or set JAVA_HOME to one$"


def fake_java(home: Path, version_line: str) -> Path:
    """An installation whose `java -version` says this."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    java.chmod(0o755)
    return java


async def test_the_java_of_this_machine_is_found() -> None:
    assert os.access(await java.find(os.environ), os.X_OK)


async def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    wanted = fake_java(tmp_path / "home", 'openjdk version "21.0.1" 2023-10-17')
    other = fake_java(tmp_path / "other", 'openjdk version "17.0.1" 2021-10-19')

    assert await java.find({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{other.parent}:{os.environ['PATH']}"}) == wanted


async def test_an_absent_java_is_told_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=f"^Java was not found: {ADVICE}"):
        await java.find({"PATH": str(tmp_path)})


@pytest.mark.parametrize(("line", "said"), [('java version "1.8.0_402"', "8"), ('openjdk version "11.0.22" 2024-01-16', "11")])
async def test_a_java_that_is_too_old_is_told_with_its_version(tmp_path: Path, line: str, said: str) -> None:
    fake_java(tmp_path, line)

    with pytest.raises(ServerError, match=f"bin/java is Java {said}, but Java 17 or newer is needed: {ADVICE}"):
        await java.find({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


async def test_a_java_home_without_java_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=f"^JAVA_HOME is {tmp_path}, but there is no {tmp_path}/bin/java: {ADVICE}"):
        await java.find({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


async def test_a_program_that_is_no_java_is_told(tmp_path: Path) -> None:
    fake_java(tmp_path, "hello")

    with pytest.raises(ServerError, match=f"-version prints no version: {ADVICE}"):
        await java.find({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


async def test_a_server_that_needs_java_says_so(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ServerError, match=f"^Java was not found: {ADVICE}"):
        await Kafka(tmp_path / "home", cache).start()
