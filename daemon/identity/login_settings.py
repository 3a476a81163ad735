"""The settings of logins by other services, checked when a web process starts."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from tidegate.daemon.identity.grants import grants_of
from tidegate.daemon.identity.loopback import is_loopback
from tidegate.daemon.identity.proxy import networks_of
from tidegate.daemon.settings import PREFIX, Settings, SettingsError


def check_logins(settings: Settings) -> None:
    """Raises SettingsError, which names the setting and says what to write."""
    grants = grants_of(settings)
    networks = networks_of(settings)
    if settings.oidc_issuer:
        _check_issuer(settings)
    elif settings.oidc_client_id:
        raise SettingsError(f"{PREFIX}OIDC_CLIENT_ID is set, but {PREFIX}OIDC_ISSUER, the address of the provider, is not")
    if bool(networks) != bool(settings.proxy_user_header):
        raise SettingsError(
            f"{PREFIX}PROXY_ADDRESSES and {PREFIX}PROXY_USER_HEADER belong together: who may name the user, and in which header"
        )
    for name, header in (("USER", settings.proxy_user_header), ("GROUPS", settings.proxy_groups_header)):
        if not re.fullmatch(r"[A-Za-z0-9_-]*", header):
            raise SettingsError(
                f"{PREFIX}PROXY_{name}_HEADER is {header!r:.200}, but must be the name of a header, such as X-Forwarded-User"
            )
    if (settings.oidc_issuer or networks) and not grants:
        raise SettingsError(f'{PREFIX}LOGIN_ROLES gives no role: every login would be refused; write JSON like {{"*": "viewer"}}')


def _check_issuer(settings: Settings) -> None:
    parts = urlsplit(settings.oidc_issuer)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not parts.hostname or not is_safe:
        raise SettingsError(f"{PREFIX}OIDC_ISSUER is {settings.oidc_issuer!r}, but must be an address that begins with https://")
    if not settings.oidc_client_id:
        raise SettingsError(f"{PREFIX}OIDC_CLIENT_ID is not set; the provider shows it where this program is registered")
    if "openid" not in settings.oidc_scopes.split():
        raise SettingsError(f"{PREFIX}OIDC_SCOPES is {settings.oidc_scopes!r}, but must contain openid")
    client_secret(settings)


def client_secret(settings: Settings) -> str:
    """The secret of this program at the provider; empty if it has none. Raises SettingsError for a file that cannot be read."""
    if not settings.oidc_client_secret_file:
        return settings.oidc_client_secret
    try:
        return Path(settings.oidc_client_secret_file).read_text().strip()
    except (OSError, ValueError) as error:
        raise SettingsError(f"{PREFIX}OIDC_CLIENT_SECRET_FILE cannot be read: {error}") from error
