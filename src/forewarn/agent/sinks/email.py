"""Notifications as emails, sent through a mail server.

Each email has its own connection with one deadline. Text from other sources is in the
body or in an encoded header on one line, so it cannot add headers (RFC 5322, 2045, 2047).
If the answer to an email was lost, the same email is sent again with the same Message-ID.
"""

from __future__ import annotations

import binascii
import logging
import re
from collections.abc import Sequence

from forewarn.agent.handlers.secret import read_secret
from forewarn.agent.integrations.kind import Entry, Faults, SinkKind
from forewarn.agent.options import CA_FILE, Forms
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.line import Line
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.shared import (
    CHECK_SECONDS,
    KindSink,
    timeout_key,
)
from forewarn.agent.sinks.smtp import Smtp
from forewarn.agent.sinks.wording import facts, plain, sentence, title
from forewarn.agent.wire.urls import split_listener
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros, format_http_date
from forewarn.problems import quoted
from forewarn.settings.forms import Option

logger = logging.getLogger("forewarn.agent.notify")

TIMEOUT: Micros = 30 * SECOND
"""Default timeout for one email: some servers delay their greeting."""

RECIPIENTS_MAX = 50
"""Maximum number of recipients: half of what servers must accept (RFC 5321,
4.5.3.1.8)."""

LOCAL_MAX, ADDRESS_MAX = 64, 254
"""Maximum length of an address before the @, and in all (RFC 5321, 4.5.3.1)."""

IMPLICIT_PORT = 465

STARTTLS, IMPLICIT, NONE = "starttls", "implicit", "none"

WORD_BYTES = 39
"""Maximum size of the text in an encoded word, which then has 64 characters. The first
line has at most 76 with the header's name (RFC 2047, 2)."""

BASE64_BYTES = 57
"""Size of the data in a base64 line of 76 characters (RFC 2045, 6.8)."""

LINE_BYTES_MAX = 998
"""Maximum size of a line without its end (RFC 5322, 2.1.1)."""

ID_CHARACTERS = 64

_UNFIT = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)

_ADDRESS = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?",
    re.ASCII,
)


def faults(entry: Entry) -> Faults:
    """Return the problems of the settings, such as contradictions."""
    for key in ("from", "to"):
        value = entry.get(key, ())
        for address in (value,) if isinstance(value, str) else value:
            if not is_address(address):
                yield (
                    key,
                    f"{quoted(address)} is not an address such as ops@example.com",
                )
    if entry.get("to") == () or len(entry.get("to", ())) > RECIPIENTS_MAX:
        yield "to", f"must name 1 to {RECIPIENTS_MAX} addresses"
    tls = entry.get("tls", STARTTLS)
    server = split_listener(entry.get("server", "")) or ("", 0)
    if server[1] == IMPLICIT_PORT and "tls" not in entry:
        yield (
            "server",
            f'port {IMPLICIT_PORT} uses TLS from the start: write tls = "implicit"',
        )
    if "server" in entry and not server[1]:
        yield "server", "must name a port"
    if ("user" in entry) is not ("password_file" in entry):
        yield "", "user and password_file must be used together"
    elif "user" in entry and tls == NONE:
        yield "tls", "a password is sent through TLS only"


def is_address(text: str) -> bool:
    """Return whether a string is a valid email address in ASCII."""
    local = text.partition("@")[0]
    is_short = len(local) <= LOCAL_MAX and len(text) <= ADDRESS_MAX
    return is_short and _ADDRESS.fullmatch(text) is not None


class EmailSink(KindSink):
    """Sends each notification as one email."""

    usual_timeout = TIMEOUT

    def __init__(self, settings: NotifySettings, clock: Clock) -> None:
        """Store the settings."""
        super().__init__(settings, clock)
        more = settings.more
        # The settings are valid, so there is a server.
        self._host, self._port = split_listener(more["server"]) or ("", 0)
        self._sender: str = more["from"]
        self._recipients: tuple[str, ...] = more["to"]
        self._tls: str = more.get("tls", STARTTLS)
        self._secret_file = more.get("password_file", "")

    def deliver(self, number: int, notification: Notification) -> None:
        """Send one email; raises DeliveryError."""
        text = email_of(
            number, notification, sender=self._sender, recipients=self._recipients
        )
        with self._line(self._seconds) as line:
            session = self._begun(line)
            refused = session.send(self._sender, self._recipients, text)
            session.end()
        for recipient in refused:
            logger.warning("an email was not accepted for %s", recipient)

    def _wrong(self) -> Sequence[str]:
        """Raise DeliveryError if the server refuses the login; nothing is sent."""
        with self._line(min(self._seconds, CHECK_SECONDS)) as line:
            self._begun(line).end()
        return ()

    def _line(self, seconds: float) -> Line:
        return Line(self._host, self._port, clock=self._clock, seconds=seconds)

    def _begun(self, line: Line) -> Smtp:
        """Return a session that is ready to send."""
        password = read_secret(self._secret_file) if self._secret_file else ""
        if self._tls == IMPLICIT:
            line.secure(self._ca_file)
        session = Smtp(line)
        session.begin()
        if self._tls == STARTTLS:
            session.secure(self._ca_file)
        if password:
            session.log_in(self._more["user"], password)
        return session


def email_of(
    number: int, notification: Notification, *, sender: str, recipients: Sequence[str]
) -> bytes:
    """Return an email; the addresses are valid and in ASCII."""
    domain = sender.rpartition("@")[2]
    note = notification.note
    vm, event = _word(notification.vm), _word(note.event_id)
    body = _text(number, notification)
    is_plain = body.isascii() and max(map(len, body.split("\n"))) <= LINE_BYTES_MAX
    headers = [
        ("From", f"forewarn <{sender}>"),
        ("To", ",\r\n ".join(recipients)),
        ("Subject", header_text(title(notification))),
        ("Date", format_http_date(note.at).replace("GMT", "+0000")),
        ("Message-ID", f"<forewarn.{number}.{note.at}.{vm}@{domain}>"),
        # Mail programs group the emails about one event.
        ("References", f"<forewarn.event.{event}.{vm}@{domain}>"),
        ("Auto-Submitted", "auto-generated"),
        ("X-Forewarn-Kind", note.kind.value),
        ("X-Forewarn-Event-Id", event),
        ("MIME-Version", "1.0"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Transfer-Encoding", "7bit" if is_plain else "base64"),
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    lines = body.split("\n") if is_plain else _encoded_body(body)
    return (head + "\r\n" + "\r\n".join(lines)).encode("ascii")


def header_text(text: str) -> str:
    """Return a string as a header's value: unchanged, or in encoded words."""
    line = plain(text)
    if line.isascii() and "=?" not in line:
        return line
    parts: list[str] = []
    piece = b""
    for character in line:
        data = character.encode("utf-8", "replace")
        if len(piece) + len(data) > WORD_BYTES:
            parts.append(_encoded_word(piece))
            piece = b""
        piece += data
    parts.append(_encoded_word(piece))
    return "\r\n ".join(parts)


def _text(number: int, notification: Notification) -> str:
    known = facts(notification)
    width = max((len(name) for name, _ in known), default=0)
    rows = [f"{name + ':':<{width + 2}}{value}" for name, value in known]
    by = f"Notification {number} of the forewarn agent in {plain(notification.vm) or 'a VM'}."
    return "\n".join([sentence(notification), "", *rows, "", by, ""])


def _encoded_word(data: bytes) -> str:
    return f"=?utf-8?B?{binascii.b2a_base64(data, newline=False).decode()}?="


def _encoded_body(text: str) -> list[str]:
    data = text.replace("\n", "\r\n").encode("utf-8", "replace")
    pieces = range(0, len(data), BASE64_BYTES)
    return [
        binascii.b2a_base64(data[at : at + BASE64_BYTES], newline=False).decode()
        for at in pieces
    ] + [""]


def _word(text: str) -> str:
    """Return a string for use in an identifier."""
    return _UNFIT.sub("-", text)[:ID_CHARACTERS] or "-"


KIND = SinkKind(
    make=EmailSink,
    name=lambda settings: f"email to {', '.join(settings.more['to'])}",
    keys={
        "server": Option(
            form=Forms.LISTENER,
            text="The mail server, such as `smtp.example.com:587`.",
        ),
        "tls": Option(
            form=Forms.WORD,
            words=(STARTTLS, IMPLICIT, NONE),
            text="`starttls`: TLS after the greeting, or nothing is sent. `implicit`: "
            "TLS from the first byte, as at port 465. `none`: no encryption. "
            "Default: `starttls`.",
        ),
        "from": Option(form=Forms.TEXT, text="The sender's address."),
        "to": Option(form=Forms.NAMES, text="The addresses that get each email."),
        "user": Option(
            form=Forms.TEXT, text="The user for the login. Default: no login."
        ),
        "password_file": Option(
            form=Forms.TEXT,
            text="A file with the password on its first line. It is sent only through "
            "TLS.",
        ),
        "ca_file": CA_FILE,
        "timeout": timeout_key(TIMEOUT),
    },
    needed=("server", "from", "to"),
    faults=faults,
)
