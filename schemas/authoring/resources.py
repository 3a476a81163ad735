"""`resources=` of a task, and its serialised form."""

import re
from collections.abc import Mapping
from typing import TypedDict

from tidegate.schemas.dag import MAX_CPUS, MAX_MEMORY_MB, MIN_MEMORY_MB, Resources
from tidegate.schemas.error import DagError

_SIZE = re.compile(r"(\d{1,9})([mgt])b?", re.IGNORECASE | re.ASCII)
_MEBIBYTES = {"m": 1, "g": 1 << 10, "t": 1 << 20}
MIN_CPUS = 0.01
_EXAMPLE = "{'memory': '2g', 'cpus': 1.5}"


class ResourceLimits(TypedDict, total=False):
    """`memory`: a size such as `512m` or `2g`, in powers of 1024. `cpus`: processors, such as 1.5."""

    memory: str
    cpus: float


def resources(where: str, option: str, value: object) -> Resources | None:
    """The limits as a field of a task spec; None for none. Raises DagError."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value or not set(value) <= set(ResourceLimits.__annotations__):
        raise DagError(f"{where}: {option} must be a dict like {_EXAMPLE}, not {value!r:.100}")
    memory, cpus = value.get("memory"), value.get("cpus")
    return Resources(
        memory_mb=None if memory is None else _memory_mb(f"{where}: {option}", memory),
        cpus=None if cpus is None else _cpus(f"{where}: {option}", cpus),
    )


def _memory_mb(where: str, value: object) -> int:
    size = _SIZE.fullmatch(value) if isinstance(value, str) else None
    memory_mb = int(size[1]) * _MEBIBYTES[size[2].lower()] if size else 0
    if not MIN_MEMORY_MB <= memory_mb <= MAX_MEMORY_MB:
        bounds = f"from {MIN_MEMORY_MB}m to {MAX_MEMORY_MB >> 20}t"
        raise DagError(f"{where}: memory is a size like '512m' or '2g', {bounds}, not {value!r:.100}")
    return memory_mb


def _cpus(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not MIN_CPUS <= value <= MAX_CPUS:
        bounds = f"from {MIN_CPUS} to {MAX_CPUS}"
        raise DagError(f"{where}: cpus is a number of processors like 1.5, {bounds}, not {value!r:.100}")
    return float(value)
