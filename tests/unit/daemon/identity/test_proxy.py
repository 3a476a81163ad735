"""A reverse proxy that names the user: which addresses are trusted, and what their headers say."""

import msgspec
import pytest
from starlette.datastructures import Headers

from tidegate.daemon.identity.grants import RefusedLoginError, grants_of
from tidegate.daemon.identity.proxy import proxy_of
from tidegate.daemon.permissions import Caller, Role
from tidegate.daemon.settings import Settings

NONE = Settings(postgres_dsn="", kafka_servers="")
SET = msgspec.structs.replace(
    NONE,
    proxy_addresses="10.0.0.5, 192.168.7.0/24, fd00::/8",
    proxy_user_header="X-Forwarded-User",
    proxy_groups_header="X-Forwarded-Groups",
    login_roles='{"data": "editor", "platform": "admin"}',
)


def asked(address: str, *pairs: tuple[str, str], settings: Settings = SET) -> Caller | None:
    proxy = proxy_of(settings, grants_of(settings))
    assert proxy is not None
    member = proxy.member(address, Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in pairs]))
    return None if member is None else member.caller


@pytest.mark.parametrize("address", ["10.0.0.5", "192.168.7.9", "::ffff:10.0.0.5", "fd00::1"])
def test_a_proxy_of_the_settings_is_trusted(address: str) -> None:
    groups = "x-forwarded-groups", "other, data,platform"

    assert asked(address, ("x-forwarded-user", "anna"), groups) == Caller("anna", Role.ADMIN)
    assert asked(address, ("x-other", "anna")) is None


@pytest.mark.parametrize(
    ("address", "pairs", "reason"),
    [
        ("10.0.0.6", (("x-forwarded-user", "anna"),), "TIDEGATE_PROXY_ADDRESSES does not name it"),
        ("::ffff:10.0.0.6", (("x-forwarded-user", "anna"),), "does not name it"),
        ("", (("x-forwarded-user", "anna"),), "does not name it"),
        ("10.0.0.5", (("x-forwarded-user", "anna"), ("x-forwarded-user", "root")), "2 times; the proxy must replace it"),
        (
            "10.0.0.5",
            (("x-forwarded-user", "anna"), ("x-forwarded-groups", "data"), ("x-forwarded-groups", "platform")),
            "the header X-Forwarded-Groups 2 times; the proxy must replace it",
        ),
        ("10.0.0.5", (("x-forwarded-user", "anna, root"), ("x-forwarded-groups", "data")), "cannot be used"),
        ("10.0.0.5", (("x-forwarded-user", "anna"),), "the login names no group"),
    ],
)
def test_other_headers_are_refused(address: str, pairs: tuple[tuple[str, str], ...], reason: str) -> None:
    with pytest.raises(RefusedLoginError) as refused:
        asked(address, *pairs)

    assert reason in str(refused.value)


def test_no_proxy_is_trusted_unless_the_settings_name_it() -> None:
    assert proxy_of(NONE, {}) is None
