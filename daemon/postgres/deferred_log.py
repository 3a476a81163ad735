"""The logger of modules that commands import: structlog imports rich, which takes longer than most commands."""

from typing import Any


class _Logger:
    def __getattr__(self, level: str) -> Any:
        """The method of a logger."""
        import structlog  # noqa: PLC0415 - as above

        return getattr(structlog.get_logger(), level)


log = _Logger()
