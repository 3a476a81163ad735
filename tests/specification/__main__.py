"""`python -m tests.specification NAME [--without PROTECTION]`: check a specification, and print what TLC says."""

import argparse
import sys

from tests.specification.checker import NAMES, check, protections


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--without", default="", help="one of the protections in the configuration")
    chosen = parser.parse_args()
    if chosen.without and chosen.without not in protections(chosen.name):
        parser.error(f"the protections of {chosen.name} are {', '.join(protections(chosen.name))}")
    checked = check(chosen.name, chosen.without)
    sys.stdout.write(checked.text)
    return checked.code


if __name__ == "__main__":
    sys.exit(main())
