"""Each client of Kafka in the daemon connects as the settings say."""

import ast
from pathlib import Path

import pytest

DAEMON = Path(__file__).parents[3] / "daemon"
CLIENTS = {"Source", "Sink", "OutboxSink", "Publisher", "SyncPublisher", "RunStates", "subscribe"}
FILES = [path for path in sorted(DAEMON.rglob("*.py")) if "tidegate.events" in path.read_text()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DAEMON)))
def test_a_client_of_kafka_is_given_the_security(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidegate.events")]
    names = CLIENTS & {alias.name for node in imports for alias in node.names}
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    clients = [call for call in calls if getattr(call.func, "id", "") in names]

    assert [call.lineno for call in clients if "security" not in {keyword.arg for keyword in call.keywords}] == []
