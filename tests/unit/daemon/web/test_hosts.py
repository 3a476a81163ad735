"""The hosts that a web process answers for."""

import msgspec
import pytest

from tidegate.daemon.settings import Settings, SettingsError
from tidegate.daemon.web.app import hosts

NONE = Settings(postgres_dsn="", kafka_servers="")


def test_names_of_hosts_are_taken_without_their_ports() -> None:
    given = msgspec.structs.replace(NONE, web_hosts="Tide.Example.:8443, a_b.example ,, [2001:DB8::1], 10.0.0.5:80")

    assert hosts(given) == {"localhost", "127.0.0.1", "tide.example", "a_b.example", "2001:db8::1", "10.0.0.5"}


@pytest.mark.parametrize(
    "named", ["https://tide.example", "*", "*.example", "tide.example/", "a.example b.example", "a.example:x"]
)
def test_a_text_that_no_browser_sends_as_a_host_is_named(named: str) -> None:
    with pytest.raises(SettingsError) as refused:
        hosts(msgspec.structs.replace(NONE, web_hosts=f"other.example, {named}"))

    assert str(refused.value).startswith(f"TIDEGATE_WEB_HOSTS has {named!r}, which is no name of a host; write names")
