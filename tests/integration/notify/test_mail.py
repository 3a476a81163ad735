"""Mail, to a real server: taken once, refused for good or for now, and never in the clear where TLS is wanted."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword

from tests.integration.notify.mailbox import Mailbox, serve
from tests.integration.notify.notified_dag import NotifiedDag
from tests.integration.notify.post import Post
from tidegate.daemon.duties.receivers.mail import NO_TLS

SECURED = {"smtp_starttls": True, "smtp_user": "me", "smtp_password": "secret"}
TO_OPS = "Email('ops@example.org')"


async def failed_run(notified: NotifiedDag, receiver: str = TO_OPS) -> None:
    await notified.dag(f"on_failure={receiver}", task="command('a', ['false'])")
    await notified.run()
    await notified.ends(await notified.attempt(), "failed", "no rows")


def sending_to(mailbox: Mailbox, post: Post, **settings: object) -> Post:
    mine = {"smtp_host": "127.0.0.1", "smtp_port": mailbox.port, "smtp_from": "tidegate@example.org", "smtp_starttls": False}
    return post.other(**{**mine, **settings})


async def test_a_mail_arrives_with_what_happened(notified: NotifiedDag, post: Post, mailbox: Mailbox) -> None:
    await failed_run(notified, "Email('ops@example.org', 'team@example.org')")

    async with sending_to(mailbox, post).at_work():
        await notified.until("sent")

    (mail,) = mailbox.took
    ((key,),) = await notified.rows("SELECT delivery_id FROM notification")
    assert (mail["From"], mail["To"]) == ("tidegate@example.org", "ops@example.org, team@example.org")
    assert (mail["Subject"], mail["Message-ID"]) == ("[Tidegate] d: run r1: failed", f"<{key}@tidegate>")
    assert "state:        failed" in mail.get_content()


async def test_a_task_tells_by_mail_too(notified: NotifiedDag, post: Post, mailbox: Mailbox) -> None:
    await notified.dag(task=f"command('a', ['false'], retries=1, on_retry={TO_OPS})")
    await notified.run()
    await notified.ends(await notified.attempt(), "failed", "no rows on\nthis day")

    async with sending_to(mailbox, post).at_work():
        (mail,) = await mailbox.until(1)
        await notified.until("sent")

    assert mail["Subject"] == "[Tidegate] d: run r1, task a: try 1 failed, another one follows"
    assert "reason:       no rows on this day" in mail.get_content()


async def test_what_the_server_cannot_take_now_is_sent_again_as_the_same_message(
    notified: NotifiedDag, post: Post, mailbox: Mailbox
) -> None:
    mailbox.answers = ["451 busy", "451 busy"]
    await failed_run(notified)

    async with sending_to(mailbox, post).at_work():
        (sent,) = await notified.until("sent")

    assert sent.tries == 3
    assert len(mailbox.offered) == 3
    assert len({mail["Message-ID"] for mail in mailbox.offered}) == 1


async def test_what_the_server_refuses_is_not_sent_again(notified: NotifiedDag, post: Post, mailbox: Mailbox) -> None:
    mailbox.unknown = {"ops@example.org": "550 no such user"}
    await failed_run(notified)

    async with sending_to(mailbox, post).at_work():
        (failed,) = await notified.until("failed")

    assert (failed.tries, failed.reason) == (1, "the mail server refused ops@example.org: 550 no such user")


async def test_those_whom_the_server_knows_get_it_though_it_refuses_others(
    notified: NotifiedDag, post: Post, mailbox: Mailbox
) -> None:
    mailbox.unknown = {"gone@example.org": "550 no such user"}
    await failed_run(notified, "Email('ops@example.org', 'gone@example.org')")

    async with sending_to(mailbox, post).at_work():
        (sent,) = await notified.until("sent")

    assert (len(mailbox.took), sent.reason) == (1, "refused for gone@example.org")


async def test_a_mail_that_cannot_be_sent_says_which_setting_is_missing(notified: NotifiedDag, post: Post) -> None:
    await failed_run(notified)

    await post.once()

    (waiting,) = await notified.notifications()
    assert (waiting.state, waiting.reason) == ("pending", "no mail server is set; set TIDEGATE_SMTP_HOST")


async def test_a_server_that_is_away_is_waited_for(notified: NotifiedDag, post: Post, refusing_port: int) -> None:
    await failed_run(notified)

    await post.other(smtp_host="127.0.0.1", smtp_port=refusing_port).once()

    (waiting,) = await notified.notifications()
    assert (waiting.state, waiting.tries) == ("pending", 1)
    assert waiting.reason.startswith("the mail server could not be reached: Connection refused; check TIDEGATE_SMTP_HOST")


async def test_nothing_is_said_in_the_clear_to_a_server_without_tls(notified: NotifiedDag, post: Post, mailbox: Mailbox) -> None:
    await failed_run(notified)

    await sending_to(mailbox, post, **SECURED).once()

    (waiting,) = await notified.notifications()
    assert (mailbox.offered, mailbox.logins, waiting.state) == ([], [], "pending")
    assert waiting.reason == NO_TLS


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by itself; and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate")
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    where = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([openssl, "req", "-x509", *made, *where], check=True, capture_output=True)
    return files


def tls_of(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def test_a_server_that_is_trusted_gets_the_password_and_the_mail(
    notified: NotifiedDag, post: Post, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    logins: list[object] = []

    def authenticate(_server: object, _session: object, _envelope: object, _mechanism: str, login: object) -> AuthResult:
        logins.append(login)
        return AuthResult(success=True)

    await failed_run(notified)

    serving = serve(tls_of(certificate), authenticator=authenticate, auth_required=True)
    async with serving as mailbox, sending_to(mailbox, post, **SECURED).at_work():
        await notified.until("sent")

    assert (len(mailbox.took), mailbox.encrypted) == (1, [True])
    assert logins == [LoginPassword(b"me", b"secret")]


async def test_a_server_with_an_untrusted_certificate_gets_nothing(
    notified: NotifiedDag, post: Post, certificate: tuple[Path, Path]
) -> None:
    await failed_run(notified)

    async with serve(tls_of(certificate)) as mailbox:
        await sending_to(mailbox, post, smtp_starttls=True).once()

    (waiting,) = await notified.notifications()
    assert (mailbox.offered, waiting.state) == ([], "pending")
    assert "its certificate is refused (self-signed certificate); to trust it, set SSL_CERT_FILE" in waiting.reason
