"""Users that a reverse proxy names in a header of each request. Only the addresses of the settings are believed."""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, Protocol

from tidegate.daemon.identity.grants import Grants, RefusedLoginError, caller_of, grants_of
from tidegate.daemon.permissions import Caller
from tidegate.daemon.settings import PREFIX, Settings, SettingsError

Network = IPv4Network | IPv6Network


class Headers(Protocol):
    """The headers of a request."""

    def getlist(self, key: str) -> list[str]: ...


class Proxy(NamedTuple):
    """The proxies of the settings, and the headers in which they name a user and its groups."""

    networks: tuple[Network, ...]
    user_header: str
    groups_header: str
    grants: Grants

    def caller(self, address: str, headers: Headers) -> Caller | None:
        """The user that a request names; None: it names none.

        Raises RefusedLoginError for a header from another address, for one that is there twice, and for a user without a role.
        """
        named = headers.getlist(self.user_header)
        if not named:
            return None
        if not self._believes(address):
            raise RefusedLoginError(f"{self.user_header} from {address} is refused: {PREFIX}PROXY_ADDRESSES does not name it")
        if len(named) > 1:
            raise RefusedLoginError(
                f"the request has the header {self.user_header} {len(named)} times; the proxy must replace it"
            )
        lists = headers.getlist(self.groups_header) if self.groups_header else []
        groups = {group.strip() for text in lists for group in text.split(",")} - {""}
        return caller_of(self.grants, named[0].strip(), groups)

    def _believes(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
        return any((mapped or found) in network for network in self.networks)


def proxy_of(settings: Settings) -> Proxy | None:
    """None: the settings name no proxy. Raises SettingsError for settings that cannot be read."""
    networks = networks_of(settings)
    if not networks or not settings.proxy_user_header:
        return None
    return Proxy(networks, settings.proxy_user_header, settings.proxy_groups_header, grants_of(settings))


def networks_of(settings: Settings) -> tuple[Network, ...]:
    """Raises SettingsError for a text that is no address."""
    try:
        return tuple(ip_network(text.strip()) for text in settings.proxy_addresses.split(",") if text.strip())
    except ValueError as error:
        raise SettingsError(f"{PREFIX}PROXY_ADDRESSES cannot be read ({error}); write 10.0.0.5 or 10.0.0.0/24") from error
