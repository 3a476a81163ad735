"""`python -m tidegate.daemon.cli` is `tidegate`."""

from tidegate.daemon.cli.entry import main

if __name__ == "__main__":
    main()
