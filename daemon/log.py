"""Logging: human-readable on a terminal, JSON lines otherwise.

A server imports this module before others that log, so that structlog does without rich, which takes a sixth of a daemon's start.
"""

import logging
import sys
from collections.abc import Callable
from io import StringIO
from typing import Any, TextIO

from tidegate.daemon.settings import SettingsError
from tidegate.daemon.terminal import lossy, printable, visible

_modules: dict[str, Any] = sys.modules
_without_rich = _modules.setdefault("rich", None) is None

import structlog  # noqa: E402 - it imports rich where it finds it, for tracebacks with variables

if _without_rich:
    del _modules["rich"]

Processor = Callable[[Any, str, structlog.typing.EventDict], Any]


def configure(form: str) -> None:
    """`form` is `auto` (by whether stderr is a terminal), `console` or `json`. Raises SettingsError for anything else."""
    if form not in {"auto", "console", "json"}:
        raise SettingsError(f"TIDEGATE_LOG_FORMAT is {form!r}, but must be auto, console or json")
    # Tracebacks with local variables would show secrets, and take seconds.
    pretty = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[Processor] = (
        [_visible, structlog.dev.ConsoleRenderer(exception_formatter=_traceback)]
        if pretty
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(lossy(sys.stderr)),
        cache_logger_on_first_use=True,
    )
    # These libraries log every reconnect; outages are logged once.
    for name in ("aiokafka", "asyncio", "asyncpg"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _visible(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Ids and errors come from outside: a terminal would obey their control characters."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _traceback(out: TextIO, error: structlog.typing.ExcInfo) -> None:
    plain = StringIO()
    structlog.dev.plain_traceback(plain, error)
    out.write(visible(plain.getvalue()))
