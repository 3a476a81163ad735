"""A mail server on loopback that keeps what it gets."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, cast

from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.waiting import until

PATIENCE_S = 60.0


class Mailbox:
    """Says `answers` to messages in their order, and takes them once there are none left; never takes those for `unknown`."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: list[str] = []
        self.unknown: dict[str, str] = {}
        self.offered: list[EmailMessage] = []
        self.took: list[EmailMessage] = []
        self.encrypted: list[bool] = []
        self.logins: list[tuple[bytes, bytes]] = []

    async def handle_RCPT(  # noqa: N802 - the library calls it so
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address in self.unknown:
            return self.unknown[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - as above
        message = message_from_bytes(cast(bytes, envelope.content), policy=policy.default)
        self.offered.append(message)
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("2"):
            self.took.append(message)
            self.encrypted.append(session.ssl is not None)
        return answer

    async def until(self, count: int) -> list[EmailMessage]:
        """Wait for this number of messages to be taken."""
        await until(lambda: len(self.took) >= count, PATIENCE_S)
        return self.took


@asynccontextmanager
async def serve(tls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[Mailbox]:
    """In the loop of the test; with `tls` it offers STARTTLS."""
    mailbox = Mailbox()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(mailbox, hostname="localhost", tls_context=tls, loop=loop, **options), "127.0.0.1", 0
    )
    mailbox.port = server.sockets[0].getsockname()[1]
    async with server:
        yield mailbox
