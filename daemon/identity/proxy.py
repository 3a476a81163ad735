"""Users that a reverse proxy names in a header of each request. Only the addresses of the settings are trusted."""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, Protocol

from tidegate.daemon.identity.grants import Grants, Member, RefusedLoginError, member_of
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

    def member(self, address: str, headers: Headers) -> Member | None:
        """The user that a request names; None: it names none.

        Raises RefusedLoginError for a header from another address, for one that is there twice, and for a user without a role.
        """
        named = headers.getlist(self.user_header)
        if not named:
            return None
        if not self.trusts(address):
            raise RefusedLoginError(f"{self.user_header} from {address} is refused: {PREFIX}PROXY_ADDRESSES does not name it")
        groups = _only(headers, self.groups_header).split(",") if self.groups_header else []
        return member_of(self.grants, _only(headers, self.user_header).strip(), {group.strip() for group in groups} - {""})

    def trusts(self, address: str) -> bool:
        """Whether the settings name the address of a connection."""
        try:
            found = ip_address(address)
        except ValueError:
            return False
        mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
        return any((mapped or found) in network for network in self.networks)


def _only(headers: Headers, name: str) -> str:
    """The value of a header; empty without it. A second one may come from the client of the proxy. Raises RefusedLoginError."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise RefusedLoginError(f"the request has the header {name} {len(values)} times; the proxy must replace it")
    return values[0] if values else ""


def proxy_of(settings: Settings, grants: Grants) -> Proxy | None:
    """None: the settings name no proxy. Raises SettingsError for settings that cannot be read."""
    networks = networks_of(settings)
    if not networks or not settings.proxy_user_header:
        return None
    return Proxy(networks, settings.proxy_user_header, settings.proxy_groups_header, grants)


def networks_of(settings: Settings) -> tuple[Network, ...]:
    """Raises SettingsError for a text that is no address."""
    try:
        return tuple(ip_network(text.strip()) for text in settings.proxy_addresses.split(",") if text.strip())
    except ValueError as error:
        raise SettingsError(f"{PREFIX}PROXY_ADDRESSES cannot be read ({error}); write 10.0.0.5 or 10.0.0.0/24") from error
