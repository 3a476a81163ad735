"""The log of a task: its processes write to stdout and stderr, which are one file."""

import faulthandler
import logging
import time


def set_up_log() -> None:
    """The log also gets the line of a crash in C, after which nothing in Python is executed."""
    faulthandler.enable(all_threads=False)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%SZ", level=logging.INFO)
    logging.Formatter.converter = time.gmtime
    for name in ("aiokafka", "py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
