"""What the daemon of a standalone is given besides its servers."""

from tidegate.daemon.settings import Settings, read
from tidegate.daemon.standalone.stack import notifying

SERVERS = {"TIDEGATE_POSTGRES_DSN": "postgresql://localhost/t", "TIDEGATE_KAFKA_SERVERS": "localhost:9092"}


def test_the_daemon_is_told_how_to_tell_people_and_reads_it_as_it_was() -> None:
    given = read({**SERVERS, "TIDEGATE_SMTP_HOST": "mail", "TIDEGATE_SMTP_STARTTLS": "false", "TIDEGATE_WEBHOOK_SECRET": "s"})

    passed_on = notifying(given)

    assert read({**SERVERS, **{f"TIDEGATE_{name.upper()}": value for name, value in passed_on.items()}}) == given
    assert {"smtp_host", "smtp_starttls", "webhook_secret", "notify_tries", "callback_timeout_s"} <= passed_on.keys()


def test_nothing_else_is_passed_on() -> None:
    passed_on = notifying(Settings(postgres_dsn="", kafka_servers=""))

    assert {"postgres_dsn", "kafka_servers", "topic_prefix", "spool_dir"} & passed_on.keys() == set()
