"""Whether an address is on this machine."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether a host name of a URL is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
