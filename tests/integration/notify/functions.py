"""Functions of a DAG file that keep a record of what they are told."""

from pathlib import Path

import msgspec

from tests.waiting import until
from tidegate.schemas.notice import CallbackContext

FUNCTIONS = """
import os, time
from pathlib import Path
from tidegate.schemas.wire.event import encode

def tell(context):
    print("told of", context.on)
    with Path({out!r}).open("ab") as file:
        file.write(encode(context) + b"\\n")

def fail_once(context):
    tell(context)
    if Path({out!r}).read_text().count("\\n") == 1:
        raise ValueError("the pager is off")

def wait(context):
    tell(context)
    while not Path({out!r} + ".go").exists():
        time.sleep(0.02)
"""


class Told:
    """What the functions were told, by their own record."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def all(self) -> list[CallbackContext]:
        lines = self.out.read_bytes().splitlines() if self.out.exists() else []
        return [msgspec.json.decode(line, type=CallbackContext) for line in lines]

    async def until(self, count: int) -> None:
        await until(lambda: len(self.all()) >= count, 60)

    def go(self) -> None:
        """End every waiting function."""
        Path(f"{self.out}.go").touch()
