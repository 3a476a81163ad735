"""Facts in words."""

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from tidegate.schemas.text import span, utc


class Worded(msgspec.Struct, frozen=True, tag_field="kind"):
    """A fact in words: `words` with the fields filled in. In JSON, `kind` is the type."""

    words: ClassVar[str]

    @property
    def text(self) -> str:
        return self.words.format(**{name: _printed(name, getattr(self, name)) for name in self.__struct_fields__})


def _printed(name: str, value: Any) -> Any:
    match value:
        case datetime():
            return utc(value)
        case float() | int() if name.endswith("_s"):
            return span(value)
        case tuple():
            return ", ".join(value)
        case None | "":
            return "unknown"
        case _:
            return value
