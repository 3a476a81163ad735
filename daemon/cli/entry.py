"""The entry point of `tidegate`. It imports nothing: the package of the events client alone has it, too."""

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The `tidegate` command. Says which packages it needs if they are not installed.

    Its environment has secrets, which tasks and DAG files of the same user must not read: before anything else.
    """
    try:
        from tidegate.daemon.dagfiles.confine import refuse_inspection

        refuse_inspection()
        from tidegate.daemon.cli import app
    except ModuleNotFoundError as error:
        if (error.name or "tidegate").partition(".")[0] == "tidegate":
            raise
        sys.exit(f"tidegate: the command needs the package {error.name}; run pip install 'tidegate[daemon]'")
    app.main(args)
