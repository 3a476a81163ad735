"""A DAG that wants mail where none can be sent is named as soon as its file is parsed."""

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.integration.dagfiles.conftest import Write, parse
from tidegate.daemon.duties.parse_files import warn_without_mail
from tidegate.daemon.settings import Settings

FILE = """
    from tidegate import Dag, Email, Webhook
    mail, hook = Email("ops@example.org"), Webhook("https://example.org/")

    Dag("by_mail", on_failure=[hook, mail])
    Dag("of_a_task").empty("a", on_success=mail)
    Dag("by_hook", on_failure=hook)
    Dag("by_nobody").empty("a")
"""


@pytest.mark.parametrize(
    ("host", "named"), [("", ["by_mail", "of_a_task"]), ("mail.example.org", [])], ids=["no server", "a server"]
)
async def test_a_dag_that_wants_mail_is_named_where_there_is_no_server(
    settings: Settings, write: Write, host: str, named: list[str]
) -> None:
    (parsed,) = await parse(settings, write("mail.py", FILE))

    with capture_logs() as logs:
        warn_without_mail(msgspec.structs.replace(settings, smtp_host=host), parsed.dags)

    warnings = [line for line in logs if line["event"] == "mail_not_configured"]
    assert [warning["dag_id"] for warning in warnings] == named
    assert all("TIDEGATE_SMTP_HOST" in warning["hint"] for warning in warnings)
