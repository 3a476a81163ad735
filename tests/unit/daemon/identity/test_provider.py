"""A provider of OpenID Connect that does not answer."""

import pytest

from tidegate.daemon.identity import login_attempt, provider
from tidegate.daemon.identity.provider import Provider
from tidegate.daemon.settings import Settings
from tidegate.daemon.web.serve import address_of, listen
from tidegate.schemas.error import UnavailableError


async def test_a_provider_that_does_not_answer_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes the connection."""
    monkeypatch.setattr(provider, "TIMEOUT_S", 0.125)
    with listen("127.0.0.1", 0) as silent:
        issuer = address_of(silent)
        settings = Settings(postgres_dsn="", kafka_servers="", oidc_issuer=issuer, oidc_client_id="tidegate")
        with pytest.raises(UnavailableError) as raised:
            await Provider(settings, {}).address(login_attempt.begin("/"), f"{issuer}/callback")

    host = issuer.removeprefix("http://")
    assert str(raised.value) == f"the login provider is not available at {host}: it has not answered within 0.125 seconds"
