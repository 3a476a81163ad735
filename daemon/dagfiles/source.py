"""Reads DAG files, from the DAG folder only.

The path in an event is not trusted. Each part of it is opened relative to its parent, and symbolic links are rejected, so that no
race and no link leads out of the folder.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec

from tidegate.daemon.dagfiles.archive import BadArchiveError, is_in_root, read_modules
from tidegate.daemon.dagfiles.ignore import Ignore, ignore_of
from tidegate.daemon.dagfiles.message import DENIED, MAX_BYTES, NOT_READ
from tidegate.daemon.dagfiles.stamp import Stamp, stamp_of
from tidegate.schemas.dag import ARCHIVE, ModuleSource, archive_of
from tidegate.schemas.error import TidegateError
from tidegate.schemas.queries.memory import Bounded

USUAL_BYTES = 1 << 14
"""Read at once of a file that says that it is smaller."""

NO_FILE = "it is not a regular file"

_BELOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC

KEPT_BYTES = 256 << 20
"""Modules of archives that stay in memory, so that an archive is not unpacked for each of its files and at each scan."""

LEAST_WEIGHT = 4096
"""The least weight of an archive; a refused one has no modules."""


class Source(msgspec.Struct, frozen=True):
    """The content of a DAG file; `digest` is its SHA-256 in hex.

    A file of an archive comes with all of its `modules`; `imports` has their digest.
    """

    text: str
    digest: str
    imports: Mapping[str, str] = {}
    modules: tuple[ModuleSource, ...] = ()


class Archive(NamedTuple):
    """The modules of an archive by the names of their entries; `manifest` is a text with their digests."""

    modules: Mapping[str, ModuleSource]
    manifest: str


class ReadImports(NamedTuple):
    """The digests of files by path, and the modules among them."""

    digests: Mapping[str, str] = {}
    modules: tuple[ModuleSource, ...] = ()


class RefusedError(TidegateError):
    """The file exists but is not read as a DAG file; the message says why."""

    def __init__(self, message: str, digest: str = NOT_READ) -> None:
        super().__init__(message)
        self.digest = digest


def read(root: Path, path: str) -> Source | None:
    """The DAG file, an archive without text; None when missing, ignored or in a folder of an archive. Raises RefusedError."""
    parts, ignore = _parts(path), ignore_of(root)
    found = None if ignore.file(path) else _source(root, parts, path)
    if found is not None and ignore.problem:
        raise RefusedError(ignore.problem)
    return found


def _source(root: Path, parts: list[str], path: str) -> Source | None:
    if (archive := archive_file(root, f"{path}/")) is not None:
        return _entry(root, archive, path)
    content = None if path.endswith(ARCHIVE) else _read(root, parts)
    return None if content is None else decode(content)


def archive_file(root: Path, path: str) -> str | None:
    """The archive that a path leads into, or that it names with a slash at its end. A folder may be named like an archive."""
    archive = archive_of(path)
    return None if archive is None or os.path.isdir(root / archive) else archive


class Archives:
    """Opens archives. Unchanged ones stay in memory, the newest up to `most` bytes; others are unpacked again."""

    def __init__(self, most: int) -> None:
        self._kept: Bounded[tuple[Path, str], tuple[Stamp, Archive | RefusedError]] = Bounded(most)
        self._lock = Lock()

    def open(self, root: Path, path: str) -> Archive | None:
        """The archive at `path` below `root`; None when it is missing. Raises RefusedError."""
        try:
            found = os.lstat(root / path)
        except PermissionError as error:
            raise RefusedError(_why_not_opened(path, error)) from None
        except (OSError, ValueError):
            return None
        archive = self._at(root, path, stamp_of(found))
        if isinstance(archive, RefusedError):
            raise RefusedError(str(archive), archive.digest)
        return archive

    def _at(self, root: Path, path: str, stamp: Stamp) -> Archive | RefusedError:
        """Threads may unpack an archive at once: the lock is not held meanwhile."""
        with self._lock:
            known = self._kept.get((root, path))
        if known is not None and known[0] == stamp:
            return known[1]
        archive = _unpacked(root, path)
        with self._lock:
            self._kept.remember((root, path), (stamp, archive), _weight(archive))
        return archive


open_archive = Archives(KEPT_BYTES).open


def dag_files(archive: Archive, path: str, ignore: Ignore) -> Sequence[str]:
    """The DAG files of the archive at `path`. An archive without any is none of DAGs, and its former DAG files are gone."""
    inside = (f"{path}/{name}" for name in archive.modules if is_in_root(name))
    return [name for name in inside if not ignore.file(name)]


def _unpacked(root: Path, path: str) -> Archive | RefusedError:
    """The archive, or why it is refused."""
    try:
        with _opened(root, path.split("/")) as file:
            texts = {} if file is None else _texts(file)
    except (BadArchiveError, RefusedError) as error:
        return RefusedError(str(error), _sha256(str(error)))
    modules = {name: ModuleSource(f"{path}/{name}", _sha256(text), text) for name, text in texts.items()}
    return Archive(modules, "\n".join(f"{name}\0{module.digest}" for name, module in modules.items()))


def _weight(archive: Archive | RefusedError) -> int:
    modules = () if isinstance(archive, RefusedError) else archive.modules.values()
    return max(sum(len(module.source) for module in modules), LEAST_WEIGHT)


def _texts(file: int) -> Mapping[str, str]:
    with FileIO(os.dup(file)) as raw:
        return read_modules(raw)


def _entry(root: Path, archive: str, path: str) -> Source | None:
    found = open_archive(root, archive)
    if found is None:
        return None
    if path == archive:
        return Source("", _sha256(found.manifest)) if dag_files(found, path, ignore_of(root)) else None
    name = path.removeprefix(f"{archive}/")
    own = found.modules.get(name)
    if own is None or not is_in_root(name):
        return None
    others = tuple(module for module in found.modules.values() if module is not own)
    return Source(own.source, own.digest, {f"{archive}/": _sha256(found.manifest)}, others)


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
    """Any file below `root`; None when it is missing, no regular file, too large or behind a link.

    Of an archive with a slash at its end the digests of its modules. Of a refused archive, and of all in it, the reason.
    """
    parts = path.removesuffix("/").split("/")
    if not _is_below(parts):
        return None
    if (archive := archive_file(root, path)) is not None:
        return _archived(root, archive, path)
    try:
        return _read(root, parts)
    except RefusedError:
        return None


def _archived(root: Path, archive: str, path: str) -> bytes | None:
    try:
        found = open_archive(root, archive)
    except RefusedError as error:
        return str(error).encode()
    if found is None or path == f"{archive}/":
        return None if found is None else found.manifest.encode()
    module = found.modules.get(path.removeprefix(f"{archive}/"))
    return None if module is None else module.source.encode()


def differing(root: Path, imports: Mapping[str, Mapping[str, str]]) -> set[str]:
    """The DAG files with an import whose digest has changed. `imports` has the digests by file; each import is read once."""
    now = {path: content_digest(root, path) for path in {path for digests in imports.values() for path in digests}}
    return {file for file, digests in imports.items() if any(now[path] != digest for path, digest in digests.items())}


def read_imports(root: Path, reported: Mapping[str, str]) -> ReadImports | None:
    """The files whose digests a sandbox reported; None if one has changed since.

    Files that this process does not read have no digest.
    """
    contents = {path: content(root, path) for path in reported}
    digests = {path: NOT_READ if found is None else hashlib.sha256(found).hexdigest() for path, found in contents.items()}
    if any(digest != NOT_READ and reported[path] not in (digest, DENIED) for path, digest in digests.items()):
        return None
    sources = {path: _module(found) for path, found in contents.items() if found is not None and path.endswith(".py")}
    return ReadImports(
        digests, tuple(ModuleSource(path, digests[path], text) for path, text in sources.items() if text is not None)
    )


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


def is_blank(source: Source) -> bool:
    """Whether no sandbox needs to look at the file, such as many an `__init__.py`; `recognition` decides about the others."""
    return not source.text or source.text.isspace()


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if "\0" in path or not parts[-1].endswith((".py", ARCHIVE)):
        raise RefusedError("the path does not name a Python file (*.py) or a zip archive (*.zip)")
    if not _is_below(parts):
        raise RefusedError("the path must be relative to the DAG folder and stay below it")
    return parts


def _is_below(parts: Sequence[str]) -> bool:
    return not any(part in ("", ".", "..") or "\0" in part for part in parts)


def _read(root: Path, parts: list[str]) -> bytes | None:
    with _opened(root, parts) as file:
        return None if file is None else _content(file)


@contextmanager
def _opened(root: Path, parts: list[str]) -> Iterator[int | None]:
    """A regular file, opened part by part; None when it is missing."""
    opened: list[int] = []
    try:
        yield _open_each(opened, root, parts)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _open_each(opened: list[int], root: Path, parts: list[str]) -> int | None:
    try:
        opened.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        raise RefusedError(f"the DAG folder cannot be opened: {error.strerror}") from None
    for number, part in enumerate(parts, 1):
        # The last one is opened without blocking, in case it is a pipe.
        found = _open(opened[-1], part, os.O_DIRECTORY if number < len(parts) else os.O_NONBLOCK)
        if found is None:
            return None
        opened.append(found)
    if not stat.S_ISREG(os.fstat(opened[-1]).st_mode):
        raise RefusedError(NO_FILE)
    return opened[-1]


def _open(folder: int, name: str, flags: int) -> int | None:
    try:
        return os.open(name, _BELOW | flags, dir_fd=folder)
    except (OSError, ValueError) as error:
        if _is_link(folder, name):
            raise RefusedError(f"{name} is a symbolic link; put the file itself into the DAG folder") from None
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return None
        raise RefusedError(_why_not_opened(name, error)) from None


def _why_not_opened(name: str, error: OSError | ValueError) -> str:
    match error:
        case OSError(errno=errno.ENXIO):  # of a socket
            return NO_FILE
        case PermissionError():
            return f"{name} cannot be opened: {error.strerror}; let the user of the daemon read it"
        case OSError(strerror=str(why)):
            return f"{name} cannot be opened: {why}"
        case _:
            return f"{name} cannot be opened: {error}"


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except (OSError, ValueError):
        return False


def _content(file: int) -> bytes:
    size, content = os.fstat(file).st_size, b""
    try:
        while len(content) <= MAX_BYTES and (part := os.read(file, min(max(size, USUAL_BYTES), MAX_BYTES) + 1)):
            content += part
    except OSError as error:  # of a disk, or of a file that was replaced on its file server
        raise RefusedError(f"it cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise RefusedError(f"it has {max(size, len(content))} bytes; at most {MAX_BYTES} are read")
    return content


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
