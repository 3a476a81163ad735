"""The effect on the audit log."""

from typing import Any

import msgspec


class RecordAudit(msgspec.Struct, frozen=True):
    """What a user did, for the audit log."""

    what: str
    object: str
    details: dict[str, Any]
