"""A DAG that wants mail where none can be sent is named as soon as its file is parsed."""

from datetime import UTC, datetime

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.integration.dagfiles.conftest import Write
from tidegate.daemon.dagfiles.parse import open_parser
from tidegate.daemon.duties.dag_folder import parse_files
from tidegate.daemon.settings import Settings
from tidegate.schemas.message import Message
from tidegate.schemas.wire.event import DagFileChanged

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
    changed = Message(body=DagFileChanged(path=write("mail.py", FILE)), at=datetime.now(UTC))

    async with open_parser(settings) as parser:
        with capture_logs() as logs:
            await parse_files(msgspec.structs.replace(settings, smtp_host=host), parser, [changed])

    warnings = [line for line in logs if line["event"] == "mail_not_configured"]
    assert [warning["dag_id"] for warning in warnings] == named
    assert all("TIDEGATE_SMTP_HOST" in warning["hint"] for warning in warnings)
