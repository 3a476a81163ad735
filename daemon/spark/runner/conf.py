"""Spark configuration of a submitted application: checks what the author may set, and writes the properties file.

A file, because every user of the machine can read the arguments of a process.
"""

import re
from collections.abc import Mapping

from tidegate.daemon.spark.runner.failure_reason import TaskError

STAMP = "spark.tidegate.submission_id"

_RESERVED = re.compile(r"spark\.(master|submit\.deployMode|app\.name|tidegate\..*)", re.IGNORECASE)
# These settings escape Spark: foreign code in the JVM, other users, other pods.
_DENIED = re.compile(
    r"""spark\.((driver|executor)\.(extraJavaOptions|defaultJavaOptions|extraClassPath|extraLibraryPath)
    | jars\.ivySettings | proxy.?user | kubernetes\.(.*\.)?podTemplateFile)""",
    re.IGNORECASE | re.VERBOSE,
)
_ESCAPED = str.maketrans({"\\": "\\\\", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!", " ": "\\ ", "\t": "\\t"})


def check(conf: Mapping[str, str]) -> None:
    """Raises TaskError for the first setting that a task may not set."""
    for key, value in conf.items():
        if not key.startswith("spark."):
            raise TaskError(f"conf {key!r}: names of Spark settings start with 'spark.'")
        if _RESERVED.fullmatch(key):
            raise TaskError(f"conf {key!r} is set by the scheduler and cannot be set by a task")
        if _DENIED.fullmatch(key):
            raise TaskError(f"conf {key!r} is not allowed in a task; an operator can set it in spark-defaults.conf")
        if any(character in key + value for character in "\n\r\0"):
            raise TaskError(f"conf {key!r}: line breaks and NUL are not allowed")


def properties(conf: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    return "".join(f"{key.translate(_ESCAPED)}={value.translate(_ESCAPED)}\n" for key, value in conf.items())
