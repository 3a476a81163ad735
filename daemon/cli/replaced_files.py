"""Files that a command writes over live ones, which daemons and Python read at any moment."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tidegate.schemas.error import RequestError


def replace_all(files: Mapping[Path, str]) -> None:
    """Write all files beside their places, and then put each in its place, in this order.

    A reader finds the old content or the new one. If one cannot be written, as on a full disk, all keep the old one.
    Raises RequestError.
    """
    with ExitStack() as drafts:
        written = [(path, path.resolve(), _draft(path.resolve(), text, drafts)) for path, text in files.items()]
        for path, place, draft in written:
            with _naming(path):
                draft.replace(place)


def _draft(place: Path, text: str, drafts: ExitStack) -> Path:
    """The text beside its place. The name ends in no `.py`, so a draft is no DAG file."""
    draft = place.with_name(f".{uuid4().hex}")
    with _naming(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("x", encoding="utf-8", newline="") as file:
            drafts.callback(draft.unlink, missing_ok=True)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _own_like(draft, place)
    return draft


def _own_like(path: Path, other: Path) -> None:
    """Give a file the owner and the mode of another, if there is one: daemons may read it as another user."""
    with suppress(FileNotFoundError):
        known = other.stat()
        with suppress(PermissionError):
            os.chown(path, known.st_uid, known.st_gid)
        path.chmod(known.st_mode & 0o7777)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror}") from error
