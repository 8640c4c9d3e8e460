"""Letters, as the library's own parser reads them."""

import email
import email.policy
from dataclasses import replace
from email.message import EmailMessage

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.sinks.email import email_of, header_text
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.smtp import stuffed
from tests.support.notes import REBOOT, told_of


def read(told: Notification, number: int = 17) -> tuple[bytes, EmailMessage]:
    data = email_of(
        number,
        told,
        sender="fore@example.com",
        recipients=("a@b.example", "c@d.example"),
    )
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert not message.defects
    return data, message


def test_email_describes_the_event() -> None:
    data, message = read(told_of(NoteKind.WITHHELD, "drain failed: no route"))
    assert message["From"] == "forewarn <fore@example.com>"
    assert message["To"] == "a@b.example, c@d.example"
    assert message["Subject"] == "web_0: Reboot not prepared"
    assert message["Date"] == "Sat, 21 Nov 2026 22:00:00 +0000"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["X-Forewarn-Kind"] == "withheld"
    text = message.get_content()
    assert "drain failed: no route" in text
    assert "Description:  Host “h1” is to be maintained" in text
    assert "Notification 17 of the forewarn agent in web_0." in text
    assert b"Content-Transfer-Encoding: base64\r\n" in data


def test_ascii_text_is_sent_without_encoding() -> None:
    plain = replace(REBOOT, description="a host")
    data, message = read(told_of(notice=plain))
    assert b"Content-Transfer-Encoding: 7bit\r\n" in data
    assert "VM:           web_0" in message.get_content()


def test_same_notification_is_the_same_email() -> None:
    reports = told_of()
    assert read(reports)[0] == read(reports)[0]
    _, first = read(reports, 1)
    _, second = read(told_of(NoteKind.GONE), 2)
    assert first["Message-ID"] != second["Message-ID"]
    assert first["References"] == second["References"]
    assert first["Message-ID"] == "<forewarn.1.1795298400250000.web_0@example.com>"


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "wéb_0: Reboot",
        "é" * 190,
        "“" * 190,
        "a =?utf-8?B?eA==?= b",
        "🙂" * 100,
    ],
)
def test_subject_with_any_characters_is_preserved(text: str) -> None:
    _, message = read(told_of(vm="v"))
    value = header_text(text)
    for line in f"Subject: {value}".split("\r\n"):
        assert len(line) <= 76 or value == text
        assert line.isascii()
    del message["Subject"]
    raw = b"Subject: " + value.encode() + b"\r\n\r\n"
    parsed = email.message_from_bytes(raw, policy=email.policy.default)
    assert parsed["Subject"] == text


@pytest.mark.parametrize(
    "hostile",
    [
        "x\r\nBcc: evil@example.com",
        "x\nBcc: evil@example.com",
        "x\r\n\r\n.\r\nMAIL FROM:<evil@example.com>",
        "x\0y",
        "\u2028Bcc: evil@example.com",
        "\ud800",
    ],
)
def test_text_cannot_add_headers_or_end_the_email(hostile: str) -> None:
    notice = replace(
        REBOOT,
        event_id=hostile,
        event_type=hostile,
        description=hostile,
        resources=(hostile,),
    )
    data, message = read(
        told_of(NoteKind.FAILED, hostile, vm=hostile, handler=hostile, notice=notice)
    )
    usual, _ = read(told_of())
    heads = [message.partition(b"\r\n\r\n")[0] for message in (data, usual)]
    names = [
        [
            line.partition(b":")[0]
            for line in head.split(b"\r\n")
            if not line.startswith(b" ")
        ]
        for head in heads
    ]
    assert names[0] == names[1]
    assert message["Bcc"] is None
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert stuffed(data).count(b"\r\n.\r\n") == 1


def test_dots_are_doubled_and_the_end_is_marked() -> None:
    assert stuffed(b"a\r\n.b\r\n..\r\n.") == b"a\r\n..b\r\n...\r\n..\r\n.\r\n"
    assert stuffed(b".a\r\n") == b"..a\r\n.\r\n"
