"""The environment variables with a prefix, without those of services."""

import re
from collections.abc import Mapping

_PLACE = re.compile(r"(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_.+)?)")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://.+:\d+")


def own_variables(environ: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The variables without the prefix, in small letters."""
    own = {name.removeprefix(prefix): value for name, value in environ.items() if name.startswith(prefix)}
    return {name.lower(): value for name, value in own.items() if not _is_of_service(name, value)}


def _is_of_service(name: str, value: str) -> bool:
    """Whether Kubernetes or Docker tells by it where a service is. A number in `…_PORT` is none of theirs."""
    return _PLACE.fullmatch(name) is not None or (name.endswith("PORT") and _ADDRESS.fullmatch(value) is not None)
