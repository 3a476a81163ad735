"""The ports of the servers, kept in the data folder: exported settings stay valid over restarts."""

from pathlib import Path
from typing import Annotated

import msgspec

from tidegate.daemon.spark import whole_file
from tidegate.daemon.standalone import port as ports
from tidegate.daemon.standalone.process import ServerError
from tidegate.daemon.standalone.record import Say
from tidegate.daemon.standalone.server import Server

FILE = "ports.json"

Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class KeptPorts:
    """The ports by the names of the servers' folders. Raises ServerError for a file that cannot be read."""

    def __init__(self, home: Path) -> None:
        self._file = home / FILE
        self._kept = _read(self._file)

    def propose(self, server: Server) -> None:
        """Give a server that has no port yet the port that it had. It gets another one if a program has taken this port."""
        server.port = server.port or self._kept.get(server.home.name, 0)

    def tell(self, server: Server, port: int, say: Say) -> None:
        """Say so if the server starts with another port than the kept one."""
        kept = self._kept.get(server.home.name, port)
        if kept != port:
            say(
                f"{server.name} gets a new port for good, because another program has taken its port {kept};"
                " settings that were exported before are no longer valid"
            )

    def keep(self, server: Server) -> None:
        """Store the port of a server that is ready."""
        key = server.home.name
        if not server.port or server.port == self._kept.get(key):
            return
        self._kept[key] = server.port
        whole_file.replace(self._file, msgspec.json.format(msgspec.json.encode(self._kept)) + b"\n")

    def forget(self, server: Server, wanted: int, say: Say) -> None:
        """The server gets the port that the user set, unless another program has taken it."""
        self._kept.pop(server.home.name, None)
        if wanted and not ports.is_free(wanted):
            say(f"{server.name} gets another port, because another program has taken the port {wanted} of the settings")


def _read(file: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Port])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise ServerError(f"{file} cannot be read: {error}; repair or delete it, then the servers get new ports") from error
