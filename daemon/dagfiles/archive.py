"""The Python modules of a zip archive in the DAG folder.

An archive is foreign data: each size is bounded before anything is unpacked, and nothing is written to a disk.
"""

import io
import stat
import struct
import zlib
from collections.abc import Mapping, Sequence
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from tidegate.schemas.error import TidegateError

MAX_ENTRIES = 10_000
MAX_MODULES = 500
MAX_MODULE_BYTES = 1 << 20
MAX_MODULES_BYTES = 8 << 20
"""All modules of an archive together, unpacked."""

MAX_NAME_BYTES, MAX_PART_BYTES = 1000, 255
"""The longest name of an entry, and the longest part of it between slashes: the name of a DAG file is the key of a row."""

MAX_READ_BYTES = 2 << 20
"""The most that is read at once; the directory of an archive is."""

_ENCRYPTED = 1
_UNREADABLE = (BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError, struct.error, zlib.error)


class BadArchiveError(TidegateError):
    """The archive is not read; the message names the entry at fault, if there is one, and says what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; if the archive holds no DAG files, exclude it by .tidegateignore")


class _Bounded(io.BufferedReader):
    """A file whose content cannot make a reader take much memory at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_READ_BYTES:
            raise BadArchiveError(f"its directory has {size} bytes; at most {MAX_READ_BYTES} are read")
        return super().read(size)


def read_modules(file: io.FileIO) -> Mapping[str, str]:
    """The modules by name of their entry, in order; none of an archive without a module in its root. Closes the file.

    Raises BadArchiveError.
    """
    try:
        with _Bounded(file) as content, ZipFile(content) as archive:
            entries = archive.infolist()
            return _modules(archive, entries) if any(map(is_in_root, map(_name, entries))) else {}
    except _UNREADABLE as error:
        raise BadArchiveError(f"it is no valid zip archive: {error}") from error


def is_in_root(name: str) -> bool:
    """Whether an entry may be a DAG file: modules in folders are there to be imported."""
    return name.endswith(".py") and "/" not in name


def _modules(archive: ZipFile, entries: Sequence[ZipInfo]) -> Mapping[str, str]:
    if len(entries) > MAX_ENTRIES:
        raise BadArchiveError(f"it has {len(entries)} entries; at most {MAX_ENTRIES} are read")
    for entry in entries:
        _check_name(_name(entry))
    modules = [entry for entry in entries if _name(entry).endswith(".py")]
    _check(modules)
    return {name: _text(archive, entry) for name, entry in sorted((_name(entry), entry) for entry in modules)}


def _name(entry: ZipInfo) -> str:
    """The name as it is in the archive; that of `zipfile` ends at a NUL character."""
    return entry.orig_filename


def _check_name(name: str) -> None:
    parts = name.removesuffix("/").split("/")
    if len(name.encode()) > MAX_NAME_BYTES or any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        bounds = f"names have at most {MAX_NAME_BYTES} bytes, and {MAX_PART_BYTES} between two slashes"
        raise BadArchiveError(f"entry {name[:MAX_PART_BYTES]!r}…: {bounds}")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or "\0" in name:
        raise BadArchiveError(f"entry {name!r}: names are relative, with single slashes, and do not leave the archive")


def _check(modules: Sequence[ZipInfo]) -> None:
    if len(modules) > MAX_MODULES:
        raise BadArchiveError(f"it has {len(modules)} modules; at most {MAX_MODULES} are read")
    size, names = 0, set[str]()
    for entry in modules:
        if (reason := _reason(entry, names)) is not None:
            raise BadArchiveError(f"entry {_name(entry)!r}: {reason}")
        names.add(_name(entry))
        size += entry.file_size
        if size > MAX_MODULES_BYTES:
            raise BadArchiveError(f"entry {_name(entry)!r}: its modules have more than {MAX_MODULES_BYTES} bytes when unpacked")


def _reason(entry: ZipInfo, names: set[str]) -> str | None:
    """Why a module is not read; `names` are those of the modules before."""
    if entry.flag_bits & _ENCRYPTED:
        return "it is encrypted; pack it without a password"
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        return "its compression is not read; pack it with deflate"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "it is a symbolic link; pack the file itself"
    if _name(entry) in names:
        return "two entries have this name"
    if entry.file_size > MAX_MODULE_BYTES:
        return f"it has {entry.file_size} bytes; at most {MAX_MODULE_BYTES} are read"
    return None


def _text(archive: ZipFile, entry: ZipInfo) -> str:
    """The module as text that Postgres accepts."""
    try:
        with archive.open(entry) as file:
            text = file.read(MAX_MODULE_BYTES + 1).decode("utf-8-sig")  # without a bound, a small entry may unpack to gigabytes
    except UnicodeDecodeError as error:
        raise BadArchiveError(f"entry {_name(entry)!r}: it is not UTF-8: {error.reason} at byte {error.start}") from None
    except _UNREADABLE as error:
        raise BadArchiveError(f"entry {_name(entry)!r}: it cannot be unpacked: {error}") from error
    if "\0" in text:
        raise BadArchiveError(f"entry {_name(entry)!r}: it contains a NUL character")
    return text
