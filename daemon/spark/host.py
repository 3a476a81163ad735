"""The identity of a host: its name, and the id of its spool.

Daemons share the submissions of one spool. Two spools on one machine are two hosts, and so are two machines of one name.
"""

import os
import re
from pathlib import Path
from uuid import uuid4

from tidegate.daemon.settings import PREFIX, Settings, SettingsError, spool_root
from tidegate.daemon.spark import whole_file
from tidegate.daemon.spark.regular_file import DamagedError, read_regular
from tidegate.daemon.spark.spool import spools

ID = "host-id"
MAX_ID_BYTES = 64
PROBE = b"written\n" * 2048

_ID = re.compile(rb"(?:[0-9a-f]{8})?")


def host_of(settings: Settings) -> str:
    """`NAME/ID`; the name alone for a spool without an id. Raises SettingsError for a damaged id."""
    path = spool_root(settings) / ID
    try:
        id_ = read_regular(path, MAX_ID_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return settings.host
    except (DamagedError, OSError) as error:
        raise SettingsError(f"{PREFIX}SPOOL_DIR: {error}") from error
    if not _ID.fullmatch(id_):
        raise SettingsError(f"{PREFIX}SPOOL_DIR: {path} is damaged; end the tasks of this host, then delete the file")
    return f"{settings.host}/{id_.decode()}" if id_ else settings.host


def open_spools(settings: Settings) -> None:
    """Create the directory of all spools with its id. Raises SettingsError when it is not writable."""
    root = spool_root(settings)
    try:
        write_probe(root)
        if not os.path.lexists(root / ID):
            _create_id(root)
    except OSError as error:
        problem = f"{PREFIX}SPOOL_DIR: {root} is not writable: {error.strerror}"
        raise SettingsError(f"{problem}; make room there, or choose another directory") from error


def write_probe(root: Path) -> None:
    """Write as much as a small submission, and delete it. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True)
    probe = root / f".probe.{uuid4().hex}"
    try:
        probe.write_bytes(PROBE)
    finally:
        probe.unlink(missing_ok=True)


def _create_id(root: Path) -> None:
    """Empty for the spool of a version without ids: the submissions there are recorded with the name alone."""
    whole_file.create(root / ID, b"" if any(spools(root)) else uuid4().hex[:8].encode())


def secrets_dirs(settings: Settings) -> tuple[Path, ...]:
    """The folders with the secrets of tasks: the credentials that systemd gives the daemon, then the folder of the setting."""
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    own = Path(os.path.expanduser(settings.secrets_dir)).absolute()
    return (Path(credentials), own) if credentials else (own,)
