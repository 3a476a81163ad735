"""Ask before something is done to many things at once, where somebody can be asked."""

import sys
from typing import Annotated

import typer

from tidegate.schemas.error import RequestError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def agree(verb: str, what: str) -> None:
    """Raises RequestError when the answer is no, BadParameter when nobody can be asked. `verb` is a regular one: clear."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"nobody can be asked here; say --yes to {verb} this", param_hint="--yes")
    sys.stderr.write(f"{verb} {what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RequestError(f"nothing was {verb}ed")
