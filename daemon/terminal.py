"""What is written to a terminal, a file or a pipe: text from outside, and what to do when it cannot be written."""

import select
from contextlib import suppress
from typing import Any, TextIO, cast

PATIENCE_S = 1.0
"""How long a line waits for a reader that does not read. The lines after it are dropped until the reader goes on."""

PIECE = 1000
"""Characters that a pipe always takes when it takes any: they are at most a page."""


def visible(text: str, kept: str = "\n") -> str:
    """Text with escapes for all characters that cannot be printed, except those `kept`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else char.encode("unicode_escape").decode() for char in text)


def printable(text: str) -> str:
    """Text in one line, with escapes for characters that move the cursor of a terminal or break a line."""
    return visible(text, kept="")


def lossy(stream: TextIO) -> TextIO:
    """The stream, without what it cannot write: a full disk, or a reader that ended or stands, holds up no work."""
    return cast(TextIO, _LossyStream(stream))


class _LossyStream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._patience_ms = PATIENCE_S * 1000

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        for start in range(0, len(text), PIECE):
            if not self._is_read():
                return
            with suppress(OSError, ValueError):
                self._stream.write(text[start : start + PIECE])
                self._stream.flush()

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def _is_read(self) -> bool:
        """Whether a write would not wait: all work of an event loop would wait with it."""
        try:
            poll = select.poll()
            poll.register(self._stream.fileno(), select.POLLOUT)
            is_read = bool(poll.poll(self._patience_ms))
        except (OSError, ValueError):
            return True
        self._patience_ms = PATIENCE_S * 1000 if is_read else 0
        return is_read
