"""The user of this process, who has the password of the database and may do everything."""

import getpass
import os

from tidegate.daemon.permissions import Caller, Role
from tidegate.daemon.settings import Settings


def current_user(settings: Settings) -> str:
    """`user@host`, for the audit log."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{settings.host}"


def local_caller(settings: Settings) -> Caller:
    """The user as a caller of every role, as it has the password of the database."""
    return Caller(current_user(settings), Role.ADMIN)
