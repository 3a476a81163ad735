"""The question before a command changes many things at once."""

import sys
from typing import Annotated

import typer

from tidegate.schemas.error import RequestError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def confirm(verb: str, subject: str) -> None:
    """Ask on stderr. Raises RequestError for any answer but yes, BadParameter without a terminal. `verb` is regular: clear."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"no terminal to confirm on; add --yes to {verb} without a question", param_hint="--yes")
    sys.stderr.write(f"{verb} {subject}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RequestError(f"nothing was {verb}ed")
