"""The settings of logins are checked when a web process starts."""

from pathlib import Path

import msgspec
import pytest

from tidegate.daemon.identity.login_settings import check_logins, client_secret
from tidegate.daemon.settings import Settings, SettingsError

NONE = Settings(postgres_dsn="", kafka_servers="")
OIDC = {"oidc_issuer": "https://id.example", "oidc_client_id": "tidegate", "login_roles": '{"*": "viewer"}'}
PROXY = {"proxy_addresses": "10.0.0.5", "proxy_user_header": "X-User", "login_roles": '{"*": "viewer"}'}


@pytest.mark.parametrize("given", [{}, OIDC, PROXY, {**OIDC, "oidc_issuer": "http://127.0.0.1:8080/realms/a"}])
def test_settings_that_fit_are_accepted(given: dict[str, str]) -> None:
    check_logins(msgspec.structs.replace(NONE, **given))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({**OIDC, "oidc_issuer": "http://id.example"}, "TIDEGATE_OIDC_ISSUER is 'http://id.example', but must be"),
        ({**OIDC, "oidc_issuer": "id.example"}, "TIDEGATE_OIDC_ISSUER"),
        ({**OIDC, "oidc_client_id": ""}, "TIDEGATE_OIDC_CLIENT_ID is not set"),
        ({**OIDC, "oidc_issuer": ""}, "TIDEGATE_OIDC_CLIENT_ID is set, but TIDEGATE_OIDC_ISSUER,"),
        ({**OIDC, "oidc_scopes": "profile"}, "TIDEGATE_OIDC_SCOPES is 'profile', but must contain openid"),
        ({**OIDC, "oidc_client_secret_file": "/nowhere"}, "TIDEGATE_OIDC_CLIENT_SECRET_FILE cannot be read"),
        ({**OIDC, "login_roles": "{}"}, "TIDEGATE_LOGIN_ROLES gives no role"),
        ({**OIDC, "login_roles": "x"}, "TIDEGATE_LOGIN_ROLES cannot be read"),
        ({**PROXY, "login_roles": "{}"}, "TIDEGATE_LOGIN_ROLES gives no role"),
        ({**PROXY, "proxy_user_header": ""}, "TIDEGATE_PROXY_ADDRESSES and TIDEGATE_PROXY_USER_HEADER belong together"),
        ({**PROXY, "proxy_addresses": ""}, "belong together"),
        ({**PROXY, "proxy_user_header": "X-User:"}, "TIDEGATE_PROXY_USER_HEADER is 'X-User:', but must be the name of a header"),
        ({**PROXY, "proxy_groups_header": "X Groups"}, "TIDEGATE_PROXY_GROUPS_HEADER is 'X Groups'"),
        ({**PROXY, "proxy_addresses": "10.0.0.1/8"}, "TIDEGATE_PROXY_ADDRESSES cannot be read"),
    ],
)
def test_settings_that_do_not_fit_are_named(given: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_logins(msgspec.structs.replace(NONE, **given))

    assert reason in str(refused.value)


def test_a_secret_in_a_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the file\n")
    given = {"oidc_client_secret": "of the setting", "oidc_client_secret_file": str(tmp_path / "secret")}

    assert client_secret(msgspec.structs.replace(NONE, **given)) == "of the file"
