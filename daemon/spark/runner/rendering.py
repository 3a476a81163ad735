"""The texts of a task, of which some are templates. Jinja is imported for the first of these: most tasks have none."""

import re

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.schemas.text import is_template

_LINE_END = re.compile(r"\r\n?")


def render(text: str, spec: SubmissionSpec, what: str) -> str:
    """As `template.render`."""
    if not is_template(text):
        return _LINE_END.sub("\n", text)
    from tidegate.daemon.spark.runner import template  # noqa: PLC0415 - see above

    return template.render(text, spec, what)
