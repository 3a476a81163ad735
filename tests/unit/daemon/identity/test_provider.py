"""A provider of OpenID Connect that does not answer."""

import pytest
from structlog.testing import capture_logs

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
        found = Provider(settings, {})
        with capture_logs() as logged:
            for _ in range(2):
                with pytest.raises(UnavailableError) as raised:
                    await found.address(login_attempt.begin("/"), f"{issuer}/callback")

    host = issuer.removeprefix("http://")
    assert str(raised.value) == f"the login provider is not available at {host}: it has not answered within 0.125 seconds"
    assert logged == [{"event": "oidc_provider_away", "log_level": "warning", "error": str(raised.value)}]
