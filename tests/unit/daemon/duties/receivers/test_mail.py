"""What is in a mail, and what a mail server's refusal means."""

from datetime import UTC, datetime
from typing import Any

import pytest
from aiosmtplib import (
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPDataError,
    SMTPRecipientRefused,
    SMTPRecipientsRefused,
    SMTPSenderRefused,
    SMTPServerDisconnected,
)

from tidegate.daemon.duties.receivers.delivery import Failed
from tidegate.daemon.duties.receivers.mail import failure, message, sender_of
from tidegate.daemon.settings import Settings
from tidegate.schemas.notice import CallbackContext, FailedTask, LogExcerpt, MissedDeadline
from tidegate.schemas.receiver import EmailReceiver, On

AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
OPS = EmailReceiver(("ops@example.org", "team@example.org"))


def context(on: On = On.FAILURE, **facts: Any) -> CallbackContext:
    known = {
        "dag_id": "daily",
        "run_id": "r1",
        "run_type": "manual",
        "run_after": AT,
        "logical_date": None,
        "state": "failed",
        "at": AT,
    }
    return CallbackContext(on=on, **{**known, **facts})


@pytest.mark.parametrize(
    ("told", "subject"),
    [
        (context(On.SUCCESS), "[Tidegate] daily: run r1: succeeded"),
        (context(On.FAILURE, task_id="load"), "[Tidegate] daily: run r1, task load: failed"),
        (
            context(On.RETRY, task_id="load", try_number=2),
            "[Tidegate] daily: run r1, task load: try 2 failed, another one follows",
        ),
        (context(On.TIMEOUT), "[Tidegate] daily: run r1: took too long"),
        (
            context(On.DEADLINE, deadline=MissedDeadline(name="by nine", due_at=AT)),
            "[Tidegate] daily: run r1: missed the deadline 'by nine'",
        ),
        (context(On.DEADLINE), "[Tidegate] daily: run r1: missed a deadline"),
        (context(On.DEADLINE, run_id=None, run_after=None), "[Tidegate] daily: inputs were not there by the deadline"),
    ],
)
def test_the_subject_says_what_happened(told: CallbackContext, subject: str) -> None:
    assert message(OPS, told, "<1@tidegate>", "tidegate@example.org")["Subject"] == subject


def test_a_subject_of_ones_own_is_taken_instead() -> None:
    receiver = EmailReceiver(("ops@example.org",), subject="Look at this")

    assert message(receiver, context(), "<1@tidegate>", "tidegate@example.org")["Subject"] == "Look at this"


def test_the_headers_name_everybody_and_the_message() -> None:
    mail = message(OPS, context(), "<1@tidegate>", "tidegate@example.org")

    assert (mail["From"], mail["To"]) == ("tidegate@example.org", "ops@example.org, team@example.org")
    assert (mail["Message-ID"], mail["Auto-Submitted"]) == ("<1@tidegate>", "auto-generated")
    assert mail["Date"] == "Wed, 01 May 2024 12:00:00 +0000"


def test_the_text_has_the_facts_and_nothing_that_is_not_known() -> None:
    told = context(task_id="load", try_number=1, reason="ValueError: no rows", logical_date=AT)

    text = message(OPS, told, "<1@tidegate>", "tidegate@example.org").get_content()

    assert "task:         load\n" in text
    assert "reason:       ValueError: no rows\n" in text
    assert "logical date: 2024-05-01 12:00:00 UTC\n" in text
    assert "deadline" not in text


LOG = LogExcerpt(host="h1", path="/spool/1/log", tail="reading\nValueError: no rows\nrun: other")


def test_the_log_of_an_attempt_is_in_the_text() -> None:
    told = context(task_id="load", map_index=3, try_number=2, reason="ValueError: no rows", log=LOG)

    mail = message(OPS, told, "<1@tidegate>", "tidegate@example.org")

    assert mail["Subject"] == "[Tidegate] daily: run r1, task load[3]: failed"
    assert "task:         load\nmap index:    3\ntry:          2\n" in mail.get_content()
    assert mail.get_content().endswith("\nlog on h1: /spool/1/log\n    reading\n    ValueError: no rows\n    run: other\n")


def test_the_failed_tasks_of_a_run_are_in_the_text() -> None:
    failed = FailedTask(task_id="load", map_index=3, try_number=2, reason="ValueError: no rows", log=LOG)
    other = FailedTask(task_id="check", try_number=1, reason="exit code 7")
    never_ran = FailedTask(task_id="each", try_number=0, reason="load returned no list")

    text = message(OPS, context(failed_tasks=(failed, never_ran, other)), "<1@tidegate>", "a@b.c").get_content()

    assert "\ntask load[3], try 2: ValueError: no rows\nlog on h1: /spool/1/log\n    reading\n" in text
    assert text.endswith("\n\ntask each: load returned no list\n\ntask check, try 1: exit code 7\n")


def test_the_deadline_is_in_the_text() -> None:
    told = context(On.DEADLINE, deadline=MissedDeadline(name="by nine", due_at=AT))

    assert "deadline:     by nine, 2024-05-01 12:00:00 UTC\n" in message(OPS, told, "<1@tidegate>", "a@b.c").get_content()


def test_nothing_that_a_run_is_called_becomes_a_header() -> None:
    told = context(run_id="r1\r\nBcc: thief@example.org", reason="a\nb: c")

    mail = message(OPS, told, "<1@tidegate>", "tidegate@example.org")

    assert mail["Bcc"] is None
    assert mail["Subject"] == "[Tidegate] daily: run r1 Bcc: thief@example.org: failed"


def refused(*codes: int) -> SMTPRecipientsRefused:
    return SMTPRecipientsRefused([SMTPRecipientRefused(code, "no", f"{code}@example.org") for code in codes])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refused(550), Failed("the mail server refused 550@example.org: 550 no", final=True)),
        (refused(550, 450), Failed("the mail server refused 550@example.org: 550 no; 450@example.org: 450 no")),
        (SMTPDataError(554, "looks like\nspam"), Failed("the mail server said 554 looks like spam", final=True)),
        (SMTPDataError(451, "try again"), Failed("the mail server said 451 try again")),
        (SMTPSenderRefused(530, "log in first", "a@b.c"), Failed("the mail server said 530 log in first")),
        (
            SMTPAuthenticationError(535, "who?"),
            Failed("the mail server refused the login: 535 who?; check TIDEGATE_SMTP_USER and TIDEGATE_SMTP_PASSWORD"),
        ),
        (TimeoutError(), Failed("the mail server did not answer in time (TIDEGATE_NOTIFY_TIMEOUT_S)")),
        (
            SMTPConnectError("refused"),
            Failed("the mail server could not be reached: refused; check TIDEGATE_SMTP_HOST and TIDEGATE_SMTP_PORT"),
        ),
        (SMTPServerDisconnected(""), Failed("the mail server could not be used: SMTPServerDisconnected")),
    ],
)
def test_only_what_is_refused_for_good_is_not_tried_again(error: Exception, expected: Failed) -> None:
    assert failure(error) == expected


def test_a_sender_is_made_from_the_host_where_none_is_set() -> None:
    settings = Settings(postgres_dsn="", kafka_servers="", host="worker-1")

    assert sender_of(settings) == "tidegate@worker-1"
