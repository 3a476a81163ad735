"""`python -m tidegate.daemon` is `tidegate daemon`."""

import sys

from tidegate.daemon.cli.entry import main

if __name__ == "__main__":
    main(["daemon", *sys.argv[1:]])
