"""Settings from the environment, and what is said when they are wrong."""

import pytest

from tidegate.daemon.settings import SettingsError, read
from tidegate.schemas.event import Kind

BOTH = {"TIDEGATE_POSTGRES_DSN": "postgresql://u:secret@db/x", "TIDEGATE_KAFKA_SERVERS": "broker:9092"}


def test_values_have_the_types_of_their_settings() -> None:
    settings = read({**BOTH, "TIDEGATE_SWEEP_S": "0.5", "TIDEGATE_TOPIC_PARTITIONS": "3", "TIDEGATE_DEBUG": "true"})

    assert (settings.sweep_s, settings.topic_partitions, settings.debug) == (0.5, 3, True)


def test_other_variables_are_not_ours() -> None:
    assert read({**BOTH, "PATH": "/bin", "TIDEGATED": "x"}) == read(BOTH)


@pytest.mark.parametrize("needed", ["postgres_dsn", "kafka_servers"])
def test_only_the_servers_that_are_needed_must_be_set(needed: str) -> None:
    settings = read({f"TIDEGATE_{needed.upper()}": BOTH[f"TIDEGATE_{needed.upper()}"]}, needs=(needed,))

    assert sorted((settings.postgres_dsn, settings.kafka_servers))[0] == ""


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("needed", ["postgres_dsn", "kafka_servers"])
def test_a_server_that_is_needed_and_not_set_is_named_with_an_example(needed: str, value: str | None) -> None:
    environ = {name: given for name, given in (BOTH | {f"TIDEGATE_{needed.upper()}": value}).items() if given is not None}

    with pytest.raises(SettingsError, match=f"^TIDEGATE_{needed.upper()} is not set; set it to something like .*localhost:"):
        read(environ)


def test_an_unknown_setting_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match=r"^TIDEGATE_SWEP_S is not a setting; did you mean TIDEGATE_SWEEP_S\?$"):
        read({**BOTH, "TIDEGATE_SWEP_S": "1"})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SWEEP_S", "soon", "a number"),
        ("SWEEP_S", "0", "a number > 0.0"),
        ("TOPIC_PARTITIONS", "1.5", "a whole number"),
        ("TOPIC_PARTITIONS", "0", "a whole number >= 1"),
        ("DEBUG", "maybe", "true or false"),
    ],
)
def test_a_wrong_value_is_shown_with_what_it_must_be(name: str, value: str, expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read({**BOTH, f"TIDEGATE_{name}": value})

    assert str(raised.value) == f"TIDEGATE_{name} is {value!r}, but must be {expected}"


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://u:secret@db/x",
        "host=db password=secret",
        "postgresql://u:sec/ret@db:5432/x",
        "postgresql://u:secret@db:port/x",
        "postgresql://u:secret@[::1/x",
    ],
)
def test_a_postgres_address_that_cannot_be_one_is_refused_and_never_quoted(dsn: str) -> None:
    with pytest.raises(SettingsError, match=r"^TIDEGATE_POSTGRES_DSN is no Postgres address") as raised:
        read({**BOTH, "TIDEGATE_POSTGRES_DSN": dsn})

    assert "sec" not in str(raised.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgres://db",
        "postgresql://u@/x?host=/run/postgresql",
        "postgresql://u:p%2Fw@[::1]:5432/x",
        "postgresql://u@one:1,two:2/x?sslmode=require",
    ],
)
def test_every_form_of_a_postgres_address_is_taken(dsn: str) -> None:
    assert read({**BOTH, "TIDEGATE_POSTGRES_DSN": dsn}).postgres_dsn == dsn


def test_topics_are_named_by_the_prefix() -> None:
    assert read({**BOTH, "TIDEGATE_TOPIC_PREFIX": "cell-1."}).topic(Kind.TASK_STATE) == "cell-1.task-state"
