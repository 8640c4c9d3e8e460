"""Notifications stay well formed for any text from the platform or a handler."""

import email
import email.policy
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.core.model import Note, NoteKind
from forewarn.agent.sinks import chat, eventlog, journald, syslog
from forewarn.agent.sinks.email import email_of
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.smtp import stuffed
from forewarn.protocol.notices import Notice
from tests.support import fake_hooks
from tests.support.fake_hooks import Request
from tests.support.notes import AT

pytestmark = pytest.mark.slow

BITS = ["\r\n", "\n", ".", "]", '"', "\\", "=", "<!here>", "[a](b)", "\0", "\ud800"]
TEXTS = st.text(max_size=40) | st.lists(st.sampled_from(BITS)).map("".join)
LONG = TEXTS | TEXTS.map(lambda text: text * 400)
INSTANTS = st.none() | st.integers(1, 4 * 10**15)

NOTICES = st.builds(
    Notice,
    event_id=TEXTS,
    event_type=TEXTS,
    status=TEXTS,
    source=TEXTS,
    resources=st.lists(LONG, max_size=15).map(tuple),
    not_before=INSTANTS,
    duration_seconds=st.integers(-1, 10**6),
    description=LONG,
)
NOTIFICATIONS = st.builds(
    Notification,
    vm=LONG,
    note=st.builds(
        Note,
        at=st.just(AT),
        kind=st.sampled_from(NoteKind),
        event_id=TEXTS,
        handler=TEXTS,
        detail=LONG,
        notice=st.none() | NOTICES,
    ),
)

_SYSLOG = re.compile(
    rb"<\d{1,3}>1 [0-9TZ:.-]+ [!-~]{1,255} forewarn-agent \d+ [a-z]{1,32} "
    rb"\[forewarn@32473( [a-z_]+=\"([^\"\\\]]|\\.)*\")+\] [^\r\n\0]*"
)
_HEADERS = [
    *("From", "To", "Subject", "Date", "Message-ID", "References"),
    *("Auto-Submitted", "X-Forewarn-Kind", "X-Forewarn-Event-Id", "MIME-Version"),
    *("Content-Type", "Content-Transfer-Encoding"),
]


@given(NOTIFICATIONS)
def test_email_has_its_headers_and_one_end_marker(notification: Notification) -> None:
    data = email_of(1, notification, sender="a@b.example", recipients=["c@d.example"])
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert message.keys() == _HEADERS
    assert not message.defects
    wire = stuffed(data)
    assert wire.index(b"\r\n.\r\n") == len(wire) - len(b"\r\n.\r\n")
    assert max(map(len, data.split(b"\r\n"))) <= 998


@given(NOTIFICATIONS, st.sampled_from([2_048, 8_192]))
def test_syslog_message_is_well_formed(
    notification: Notification, bytes_max: int
) -> None:
    data = syslog.message(
        1, notification, facility="daemon", sd_id=syslog.SD_ID, bytes_max=bytes_max
    )
    assert _SYSLOG.fullmatch(data), data
    assert len(data) <= 2 * bytes_max
    data.decode()


@given(NOTIFICATIONS)
def test_journald_entry_has_the_expected_fields(notification: Notification) -> None:
    data = journald.entry(1, notification, identifier="x")
    names: list[bytes] = []
    while data:
        line, _, rest = data.partition(b"\n")
        name, is_text, _ = line.partition(b"=")
        if not is_text:
            size = int.from_bytes(rest[:8], "little")
            assert rest[8 + size : 9 + size] == b"\n"
            rest = rest[9 + size :]
        names.append(name)
        data = rest
    assert all(re.fullmatch(rb"[A-Z_]+", name) for name in names)
    assert len(names) == len(set(names))


@given(NOTIFICATIONS)
def test_chat_message_is_accepted(notification: Notification) -> None:
    path = fake_hooks.SLACK_PATH
    body = json.dumps(chat.slack_message(notification)).encode()
    assert fake_hooks.slack(Request(path, {}, body))[0] == 200
    assert "<" not in chat.slack_message(notification)["text"]
    path = fake_hooks.TEAMS_PATH
    body = json.dumps(chat.teams_message(notification)).encode()
    assert fake_hooks.teams(Request(path, {}, body))[0] == 202


@given(NOTIFICATIONS)
def test_an_entry_of_the_event_log_is_one_line(notification: Notification) -> None:
    text = eventlog.text_of(1, notification)
    assert text.isprintable()
    assert len(text) <= 4_000
    assert text.startswith("forewarn: ")
