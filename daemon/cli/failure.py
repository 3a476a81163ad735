"""Errors of commands as one sentence on stderr and an exit code."""

import os
import ssl
import sys
import traceback
from collections.abc import Iterator
from typing import NamedTuple

import typer

from tidegate.daemon.cli.pages import output
from tidegate.daemon.settings import PREFIX, SettingsError
from tidegate.schemas.error import POSTGRES, TidegateError, UnavailableError, UnfitError

FAILED, USAGE, AWAY, CHANGES, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 4, 130, 141

DEBUG = f"{PREFIX}DEBUG"


class Failure(NamedTuple):
    """The end of a failed command. An empty sentence prints nothing."""

    exit_code: int
    sentence: str = ""


def failure_of(error: BaseException) -> Failure:
    """The exit code and the sentence of an error."""
    match _most_relevant(error):
        case KeyboardInterrupt():
            return Failure(INTERRUPTED, "interrupted")
        case BrokenPipeError():
            return Failure(BROKEN_PIPE)
        case SettingsError() as known:
            return Failure(USAGE, str(known))
        case UnavailableError(__cause__=OSError() as cause) as known if known.server == POSTGRES and not _is_of_certificates(
            cause
        ):
            return Failure(AWAY, f"{known}; check that it runs and that {PREFIX}POSTGRES_DSN is right")
        case UnavailableError() as known:
            return Failure(AWAY, str(known))
        case TidegateError() as known:
            return Failure(FAILED, _lines(known))
        case typer.TyperException() as known:
            return Failure(known.exit_code, _usage(known))
        case other:
            return _of_library(other)


def _lines(error: TidegateError) -> str:
    """The sentence of the error; of several values that do not fit, one line each."""
    if isinstance(error, UnfitError) and len(error.findings) > 1:
        return "\n  ".join((f"{error.summary}:", *(finding.sentence for finding in error.findings)))
    return str(error)


def _is_of_certificates(cause: OSError) -> bool:
    """Whether the sentence of the error says by itself what to check."""
    return isinstance(cause, ssl.SSLError | FileNotFoundError)


def report(error: BaseException) -> int:
    """Print the failure on stderr; returns the exit code."""
    failure = failure_of(error)
    if failure.exit_code == BROKEN_PIPE:
        # Discard buffered output: the interpreter would fail again when it flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if failure.sentence:
        output.say(f"tidegate: {failure.sentence}")
    return failure.exit_code


def debugging() -> bool:
    return os.environ.get(DEBUG, "").lower() in ("1", "true")


def _most_relevant(error: BaseException) -> BaseException:
    """The error of an exception group to report: an interrupt, else an error of Tidegate, else the first."""
    errors = list(_leaves(error))
    known = (leaf for type_ in (KeyboardInterrupt, TidegateError) for leaf in errors if isinstance(leaf, type_))
    return next(known, errors[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _leaves(member)
    else:
        yield error


def _of_library(error: BaseException) -> Failure:
    """Errors of the operating system and of libraries."""
    match error:
        case OSError(filename=str(path), strerror=str(why)) if not debugging():
            return Failure(FAILED, f"{path}: {why}")
        case UnicodeEncodeError(object=str(text), reason="surrogates not allowed") if not debugging():
            return Failure(USAGE, f"{text!r:.100} is not valid UTF-8; correct it")
        case _ if type(error).__module__.startswith("asyncpg."):
            return _of_postgres(error)
        case _:
            return Failure(FAILED, _unexpected(error))


def _of_postgres(error: BaseException) -> Failure:
    # Slow to import, but the library that raised the error has been imported.
    import asyncpg

    from tidegate.daemon.postgres.database import describe

    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError | asyncpg.InvalidCatalogNameError):
        return Failure(USAGE, f"Postgres refused the login of {PREFIX}POSTGRES_DSN: {_one_line(error)}")
    if isinstance(error, asyncpg.PostgresError) and not debugging():
        return Failure(FAILED, f"Postgres refused: {describe(error)}")
    return Failure(FAILED, _unexpected(error))


def _usage(error: typer.TyperException) -> str:
    context: typer.Context | None = getattr(error, "ctx", None)
    command = context.command_path if context else "tidegate"
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    before = _before(getattr(error, "option_name", ""), context) if context else ""
    return f"{message[:1].lower()}{message[1:]}{before}; see {command} --help"


def _before(option: str, context: typer.Context) -> str:
    """Where an option stands that is one of `tidegate` instead of the command."""
    root = context.find_root()
    if not any(option in each.opts for each in root.command.params):
        return ""
    words = context.command_path.removeprefix(root.command_path)
    return f": it stands before the command, as in `{root.command_path} {option} …{words}`"


def _unexpected(error: BaseException) -> str:
    if debugging():
        return "unexpected error\n" + "".join(traceback.format_exception(error))
    return f"unexpected {type(error).__name__}: {_one_line(error)}; run it again with {DEBUG}=1 to see where"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
