"""Reads DAG files, from the DAG folder only.

The path in an event is not trusted. Each part of it is opened relative to its parent, and symbolic links are rejected, so that no
race and no link leads out of the folder.
"""

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.daemon.dagfiles.ignore import ignore_of
from tidegate.daemon.dagfiles.message import DENIED, NOT_READ
from tidegate.schemas.dag import ModuleSource
from tidegate.schemas.error import TidegateError

MAX_BYTES = 1 << 20

_BELOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Source(msgspec.Struct, frozen=True):
    """The content of a DAG file; `digest` is its SHA-256 in hex."""

    text: str
    digest: str


class Imports(NamedTuple):
    """The digests of files by path, and the modules among them."""

    digests: Mapping[str, str] = {}
    modules: tuple[ModuleSource, ...] = ()


class RefusedError(TidegateError):
    """The file exists but is not read as a DAG file; the message says why."""

    def __init__(self, message: str, digest: str = NOT_READ) -> None:
        super().__init__(message)
        self.digest = digest


def read(root: Path, path: str) -> Source | None:
    """The file at `path` below `root`; None when it is missing or ignored. Raises RefusedError."""
    parts = _parts(path)
    if ignore_of(root).file(path):
        return None
    content = _read(root, parts)
    return None if content is None else decode(content)


def decode(content: bytes) -> Source:
    """Content as text. Raises RefusedError."""
    digest = hashlib.sha256(content).hexdigest()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError(f"it is not UTF-8: {error.reason} at byte {error.start}", digest) from None
    if "\0" in text:
        raise RefusedError("it contains a NUL character", digest)
    return Source(text, digest)


def content_digest(root: Path, path: str) -> str:
    """The SHA-256 of any file below `root`; `NOT_READ` for one without `content`."""
    found = content(root, path)
    return NOT_READ if found is None else hashlib.sha256(found).hexdigest()


def content(root: Path, path: str) -> bytes | None:
    """Any file below `root`; None when it is missing, no regular file, too large or behind a link."""
    parts = path.split("/")
    try:
        return _read(root, parts) if _is_below(parts) else None
    except RefusedError:
        return None


def differing(root: Path, imports: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Of DAG files with the digests of their imports, those of which one has another digest now. Each import is read once."""
    now = {path: content_digest(root, path) for path in {path for digests in imports.values() for path in digests}}
    return {file for file, digests in imports.items() if any(now[path] != digest for path, digest in digests.items())}


def read_imports(root: Path, reported: Mapping[str, str]) -> Imports | None:
    """The files whose digests a sandbox reported; None if one has changed since.

    Files that this process does not read have no digest.
    """
    contents = {path: content(root, path) for path in reported}
    digests = {path: NOT_READ if found is None else hashlib.sha256(found).hexdigest() for path, found in contents.items()}
    if any(digest != NOT_READ and reported[path] not in (digest, DENIED) for path, digest in digests.items()):
        return None
    sources = {path: _module(found) for path, found in contents.items() if found is not None and path.endswith(".py")}
    return Imports(digests, tuple(ModuleSource(path, digests[path], text) for path, text in sources.items() if text is not None))


def _module(found: bytes) -> str | None:
    """A module as text that Postgres accepts."""
    try:
        return decode(found).text
    except RefusedError:
        return None


def with_imports(digest: str, imports: Mapping[str, str]) -> str:
    """The digest of a DAG file together with the files that it depends on; without these its own."""
    if not imports:
        return digest
    lines = (f"{path}\0{imports[path]}" for path in sorted(imports))
    return hashlib.sha256("\n".join((digest, *lines)).encode()).hexdigest()


def can_hold_dags(source: Source) -> bool:
    """False for a file without the words `dag` and `tidegate`, which cannot build a DAG."""
    text = source.text.lower()
    return "dag" in text or "tidegate" in text


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if "\0" in path or not parts[-1].endswith(".py"):
        raise RefusedError("the path does not name a Python file (*.py)")
    if not _is_below(parts):
        raise RefusedError("the path must be relative to the DAG folder and stay below it")
    return parts


def _is_below(parts: Sequence[str]) -> bool:
    return not any(part in ("", ".", "..") or "\0" in part for part in parts)


def _read(root: Path, parts: list[str]) -> bytes | None:
    with ExitStack() as opened:
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise RefusedError(f"the DAG folder cannot be opened: {error.strerror}") from None
        opened.callback(os.close, folder)
        for part in parts[:-1]:
            below = _open(folder, part, os.O_DIRECTORY)
            if below is None:
                return None
            opened.callback(os.close, below)
            folder = below
        # Non-blocking, in case it is a pipe.
        file = _open(folder, parts[-1], os.O_NONBLOCK)
        if file is None:
            return None
        opened.callback(os.close, file)
        return _content(file)


def _open(folder: int, name: str, flags: int) -> int | None:
    try:
        return os.open(name, _BELOW | flags, dir_fd=folder)
    except (OSError, ValueError) as error:
        if _is_link(folder, name):
            raise RefusedError(f"{name} is a symbolic link; put the file itself into the DAG folder") from None
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return None
        raise RefusedError(f"{name} cannot be opened: {error}") from None


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except (OSError, ValueError):
        return False


def _content(file: int) -> bytes:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError("it is not a regular file")
    with os.fdopen(os.dup(file), "rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise RefusedError(f"it has {max(found.st_size, len(content))} bytes; at most {MAX_BYTES} are read")
    return content
