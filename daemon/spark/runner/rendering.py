"""The texts of a task, of which some are templates. Jinja is imported for the first of these: most tasks have none."""

import re

from tidegate.daemon.spark.contract import SubmissionSpec

_LINE_END = re.compile(r"\r\n?")


def is_template(text: str) -> bool:
    """Whether rendering changes more than the ends of lines."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


def render(text: str, spec: SubmissionSpec, what: str) -> str:
    """As `template.render`."""
    if not is_template(text):
        return _LINE_END.sub("\n", text)
    from tidegate.daemon.spark.runner import template  # noqa: PLC0415 - see above

    return template.render(text, spec, what)
