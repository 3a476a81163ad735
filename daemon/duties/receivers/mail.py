"""Mail by SMTP. The server's acceptance is the acknowledgement; all attempts have the same `Message-ID`."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

import aiosmtplib
import anyio
from aiosmtplib import SMTP

from tidegate.daemon.duties.receivers.delivery import Delivery, Failed, Sent, why
from tidegate.daemon.settings import Settings
from tidegate.schemas.notice import CallbackContext, FailedTask, LogExcerpt, headline
from tidegate.schemas.queries.notifications import ClaimedNotification
from tidegate.schemas.receiver import EmailReceiver

IMPLICIT_TLS_PORT = 465
QUIT_S = 1.0
NO_SERVER = "no mail server is set; set TIDEGATE_SMTP_HOST"
NO_TLS = "the mail server offers no STARTTLS, so it gets nothing; TIDEGATE_SMTP_STARTTLS=false sends mails without TLS"
PERMANENT = 500
TIME_FORMAT = "%Y-%m-%d %H:%M:%S UTC"


class MailSender:
    """Sends through the configured server, with a connection per message."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def send(self, claimed: ClaimedNotification) -> Delivery:
        settings = self._settings
        if not isinstance(claimed.receiver, EmailReceiver):
            raise TypeError(claimed.receiver)
        if not settings.smtp_host:
            return Failed(NO_SERVER)
        mail = message(claimed.receiver, claimed.context, f"<{claimed.delivery_id}@tidegate>", sender_of(settings))
        client = self._client()
        try:
            with anyio.fail_after(settings.notify_timeout_s):
                await client.connect()
                refused, _ = await client.send_message(mail)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            return failure(error)
        finally:
            await _quit(client)
        return Sent(f"refused for {', '.join(sorted(refused))}" if refused else "")

    def _client(self) -> SMTP:
        """A client that sends nothing before TLS is on, if TLS is configured."""
        settings = self._settings
        implicit = settings.smtp_port == IMPLICIT_TLS_PORT
        return SMTP(
            hostname=settings.smtp_host,
            port=settings.smtp_port,
            username=settings.smtp_user or None,
            password=settings.smtp_password or None,
            local_hostname=settings.host,
            use_tls=implicit,
            start_tls=settings.smtp_starttls and not implicit,
            timeout=settings.notify_timeout_s,
        )


async def _quit(client: SMTP) -> None:
    """Errors are ignored: the result is known already."""
    if client.is_connected:
        with anyio.move_on_after(QUIT_S), suppress(aiosmtplib.SMTPException, OSError):
            await client.quit()
    client.close()


def sender_of(settings: Settings) -> str:
    return settings.smtp_from or f"tidegate@{settings.host}"


def message(receiver: EmailReceiver, context: CallbackContext, message_id: str, sender: str) -> EmailMessage:
    """A message in plain text."""
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = ", ".join(receiver.to)
    mail["Subject"] = _one_line(receiver.subject or f"[Tidegate] {headline(context)}")
    mail["Date"] = format_datetime(context.at.astimezone(UTC))
    mail["Message-ID"] = message_id
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join(lines(context)) + "\n")
    return mail


def lines(context: CallbackContext) -> list[str]:
    """The facts of the notification, one per line."""
    facts: list[tuple[str, object]] = [
        ("DAG", context.dag_id),
        ("run", context.run_id),
        ("task", context.task_id),
        ("map index", None if context.map_index is None else str(context.map_index)),
        ("try", context.try_number),
        ("state", context.state),
        ("reason", context.reason),
        ("at", _utc(context.at)),
        ("deadline", context.deadline and f"{context.deadline.name}, {_utc(context.deadline.due_at)}"),
        ("logical date", context.logical_date and _utc(context.logical_date)),
        ("run after", context.run_after and _utc(context.run_after)),
        ("page", context.url),
    ]
    known = (f"{name + ':':14}{_one_line(str(value))}" for name, value in facts if value)
    return [
        headline(context),
        "",
        *known,
        *_log_lines(context.log),
        *(line for task in context.failed_tasks for line in _failed(task)),
    ]


def _failed(task: FailedTask) -> Iterator[str]:
    yield ""
    yield _one_line(f"{task.title}: {task.reason}")
    yield from _log_lines(task.log or None)


def _log_lines(log: LogExcerpt | None) -> Iterator[str]:
    """Where the log is, and its last lines, which are indented: none of them is a fact of the notification."""
    if log is not None:
        yield _one_line(f"log on {log.host}: {log.path}")
        yield from (f"    {line}" for line in log.tail.splitlines())


def failure(error: Exception) -> Failed:
    """Why the server rejected the message; a permanent rejection is final."""
    match error:
        case aiosmtplib.SMTPRecipientsRefused(recipients=refused):
            rejections = "; ".join(f"{it.recipient}: {it.code} {it.message}" for it in refused)
            return Failed(f"the mail server refused {_one_line(rejections)}", final=all(it.code >= PERMANENT for it in refused))
        case aiosmtplib.SMTPAuthenticationError(code=code, message=text):
            settings = "TIDEGATE_SMTP_USER and TIDEGATE_SMTP_PASSWORD"
            return Failed(f"the mail server refused the login: {code} {_one_line(text)}; check {settings}")
        case aiosmtplib.SMTPResponseException(code=code, message=text):
            # A rejected sender can be fixed in the settings, rejected content cannot.
            return Failed(
                f"the mail server said {code} {_one_line(text)}",
                final=isinstance(error, aiosmtplib.SMTPDataError) and code >= PERMANENT,
            )
        case TimeoutError():
            return Failed("the mail server did not answer in time (TIDEGATE_NOTIFY_TIMEOUT_S)")
        case aiosmtplib.SMTPConnectError():
            settings = "TIDEGATE_SMTP_HOST and TIDEGATE_SMTP_PORT"
            return Failed(f"the mail server could not be reached: {_one_line(why(error))}; check {settings}")
        case aiosmtplib.SMTPException() if "STARTTLS extension not supported" in str(error):
            return Failed(NO_TLS)
        case _:
            return Failed(f"the mail server could not be used: {_one_line(why(error))}")


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):{TIME_FORMAT}}"


def _one_line(text: str) -> str:
    """Prevents header injection by line breaks."""
    return " ".join(text.split())
