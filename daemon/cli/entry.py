"""The entry point of `tidegate`. It imports nothing of Tidegate: the package of the events client alone has it, too."""

import gc
import sys
from collections.abc import Sequence
from typing import NoReturn

GC_THRESHOLD = 50_000
"""New objects after which Python looks for garbage: the modules of a command, which stay, are fewer."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The `tidegate` command. Says which packages it needs if they are not installed.

    Its environment has secrets, which tasks and DAG files of the same user must not read: before anything else.
    """
    gc.set_threshold(GC_THRESHOLD)
    try:
        from tidegate.daemon.dagfiles.confine import refuse_inspection

        refuse_inspection()
        from tidegate.daemon.cli import app
    except ModuleNotFoundError as error:
        if (error.name or "tidegate").partition(".")[0] == "tidegate":
            raise
        sys.exit(f"tidegate: the command needs the package {error.name}; run pip install 'tidegate[daemon]'")
    try:
        app.main(args)
    finally:
        gc.freeze()  # At its end, Python looks for garbage among all that is left.
