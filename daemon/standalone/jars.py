"""Jars of a lock file, such as kafka.lock of the broker: downloaded once, verified at each start."""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from jgo.config import GlobalSettings
from jgo.constants import MAVEN_CENTRAL_URL
from jgo.maven import MavenContext
from rich.progress import Progress

from tidegate.daemon.standalone.process import ServerError

ATTEMPTS = 3
DOWNLOADS_AT_ONCE = 8


class Jar(msgspec.Struct, frozen=True):
    """A line of a lock file."""

    sha256: str
    group: str
    artifact: str
    version: str

    @property
    def filename(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def locked() -> tuple[Jar, ...]:
    """The jars of kafka.lock."""
    return parse(resources.files(__package__).joinpath("kafka.lock").read_text())


def parse(text: str) -> tuple[Jar, ...]:
    """The jars of a lock file, with a SHA-256 and Maven coordinates per line."""
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(Jar(sha256, *coordinate.split(":")) for sha256, coordinate in lines)


def cache_of(environ: Mapping[str, str]) -> Path:
    """TIDEGATE_CACHE, or ~/.cache/tidegate."""
    return Path(environ.get("TIDEGATE_CACHE") or "~/.cache/tidegate").expanduser().absolute()


def resolve(cache: Path, jars: Sequence[Jar], on_downloaded: Callable[[], None] = lambda: None) -> list[Path]:
    """The class path. Downloads the jars missing in the cache. Blocking.

    Raises ServerError if a jar cannot be downloaded or has another checksum.
    """
    try:
        _folder(cache).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServerError(f"{cache} cannot hold jars: {error.strerror}; set TIDEGATE_CACHE to another directory") from error
    absent = missing(cache, jars)
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        for _ in pool.map(lambda jar: _install(_folder(cache), jar), absent):
            on_downloaded()
    for jar in set(jars).difference(absent):
        _verify(_folder(cache) / jar.filename, jar)
    return [_folder(cache) / jar.filename for jar in jars]


def missing(cache: Path, jars: Sequence[Jar]) -> list[Jar]:
    return [jar for jar in jars if not (_folder(cache) / jar.filename).exists()]


def main(locks: Sequence[str]) -> None:
    """Fill the cache with the jars of these lock files, else of kafka.lock, with a progress bar. For setting up a machine."""
    cache = cache_of(os.environ)
    jars = [jar for lock in locks for jar in parse(Path(lock).read_text())] or locked()
    with Progress(transient=True) as progress:
        task = progress.add_task("jars", total=len(missing(cache, jars)))
        resolve(cache, jars, lambda: progress.advance(task))


def _folder(cache: Path) -> Path:
    return cache / "jars"


def _verify(path: Path, jar: Jar) -> None:
    if _sha256(path) != jar.sha256:
        raise ServerError(f"{path} is not the file that was downloaded (its SHA-256 differs): delete it and start again")


def _install(folder: Path, jar: Jar) -> Jar:
    """Download to a temporary folder, verify, then rename: the cache never contains an incomplete jar."""
    with TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
        downloaded = _download(Path(scratch), jar)
        found = _sha256(downloaded)
        if found != jar.sha256:
            raise ServerError(
                f"{jar.filename} was not installed: the downloaded file has SHA-256 {found}, but the lock says {jar.sha256}; "
                "check the Maven repository it came from"
            )
        downloaded.rename(folder / jar.filename)
    return jar


def _download(scratch: Path, jar: Jar) -> Path:
    """Download with retries, each to an empty folder: jgo accepts partial files of an earlier attempt."""
    for attempt in range(1, ATTEMPTS + 1):
        repository = scratch / str(attempt)
        try:
            return _context(repository).project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve()
        except (OSError, RuntimeError) as error:
            reason = error
    raise ServerError(f"{jar.filename} could not be downloaded, check the network and start again: {reason}")


def _context(repository: Path) -> MavenContext:
    """With the mirrors of the user's jgo settings."""
    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    return MavenContext(repo_cache=repository, remote_repos=repositories)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ServerError as error:
        sys.exit(f"error: {error}")
