"""Every error is a sentence and an exit code."""

import ssl

import pytest
import typer

from tidegate.daemon.cli.app import run
from tidegate.daemon.cli.failure import Failure, failure_of
from tidegate.daemon.postgres.migrate import SchemaError
from tidegate.daemon.settings import SettingsError
from tidegate.schemas.error import InvariantError, RequestError, TidegateError, UnavailableError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestError("no"), 1),
        (SchemaError("no"), 1),
        (InvariantError("no"), 1),
        (SettingsError("no"), 2),
        (UnavailableError("no"), 3),
    ],
)
def test_an_error_of_ours_is_its_own_sentence(error: TidegateError, code: int) -> None:
    assert failure_of(error) == Failure(code, "no")


def test_a_postgres_that_cannot_be_reached_comes_with_what_to_check() -> None:
    away = UnavailableError("Postgres is not available: [Errno 111]", server="Postgres")
    away.__cause__ = ConnectionRefusedError()

    assert failure_of(away) == (
        3,
        "Postgres is not available: [Errno 111]; check that it runs and that TIDEGATE_POSTGRES_DSN is right",
    )


@pytest.mark.parametrize("cause", [ssl.SSLCertVerificationError(), FileNotFoundError()])
def test_a_refused_certificate_comes_with_its_own_advice(cause: OSError) -> None:
    away = UnavailableError("Postgres is not available: check sslrootcert", server="Postgres")
    away.__cause__ = cause

    assert failure_of(away) == (3, "Postgres is not available: check sslrootcert")


def test_an_interrupt_has_the_exit_code_that_shells_expect() -> None:
    assert failure_of(KeyboardInterrupt()) == Failure(130, "interrupted")


def test_a_reader_that_went_away_is_not_spoken_of() -> None:
    assert failure_of(BrokenPipeError(32, "Broken pipe")) == Failure(141, "")


def test_wrong_usage_points_to_the_help() -> None:
    failure = failure_of(typer.BadParameter("Not a number.", param_hint="--limit"))

    assert failure == Failure(2, "invalid value for --limit: Not a number; see tidegate --help")


def test_an_option_of_tidegate_after_the_command_is_told_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dags", "list", "--server", "http://a"]) == 2

    where = "it stands before the command, as in `tidegate --server … dags list`; see tidegate dags list --help"
    assert capsys.readouterr().err == f"tidegate: no such option: --server: {where}\n"


def test_of_several_errors_one_of_ours_is_spoken_of() -> None:
    group = ExceptionGroup("several", [ValueError("x"), ExceptionGroup("more", [UnavailableError("Kafka is away")])])

    assert failure_of(group) == Failure(3, "Kafka is away")


def test_an_interrupt_counts_more_than_what_it_led_to() -> None:
    group = BaseExceptionGroup("several", [UnavailableError("cut off"), KeyboardInterrupt()])

    assert failure_of(group).exit_code == 130


def test_an_unexpected_error_is_one_line_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_DEBUG", raising=False)

    failure = failure_of(KeyError("two\nlines"))

    assert failure == Failure(1, "unexpected KeyError: 'two\\nlines'; run it again with TIDEGATE_DEBUG=1 to see where")


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_DEBUG", "1")

    empty: dict[str, str] = {}
    with pytest.raises(KeyError) as raised:
        empty["x"]
    failure = failure_of(raised.value)

    assert "Traceback" in failure.sentence
    assert "test_failure.py" in failure.sentence


def test_a_file_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_DEBUG", raising=False)

    failure = failure_of(ExceptionGroup("several", [OSError(28, "No space left on device", "/data/log")]))

    assert failure == Failure(1, "/data/log: No space left on device")


def test_an_argument_that_is_no_text_is_wrong_usage() -> None:
    with pytest.raises(UnicodeEncodeError) as raised:
        "r\udcff".encode()

    assert failure_of(raised.value) == Failure(2, r"'r\udcff' is not valid UTF-8; correct it")
