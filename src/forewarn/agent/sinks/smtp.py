"""Send one email to a mail server: the client side of SMTP (RFC 5321) on a `Line`.

It sends one email per connection, one command at a time, and limits the length of
replies. If TLS is required and unavailable, nothing is sent. Replies from before TLS
are ignored after it (RFC 3207, 6). A refusal becomes a `DeliveryError` with the server's
text, except after a login, where the text may repeat the password.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.sinks.line import Line

REPLY_LINES_MAX = 100
"""Maximum number of lines in a reply; EHLO has a dozen."""

_REPLY = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?", re.DOTALL)
_READY, _LOGGED_IN, _OK, _GO_ON, _DATA = 220, 235, 250, 334, 354
_PERMANENT = 500


@dataclass(frozen=True)
class _Reply:
    code: int
    lines: tuple[str, ...]


class Smtp:
    """One session with a mail server."""

    def __init__(self, line: Line) -> None:
        """Store the line, which is open, and has TLS if that comes first."""
        self._line = line
        self._offers: dict[str, str] = {}

    def begin(self) -> None:
        """Read the greeting and send EHLO; raises DeliveryError."""
        self._expect(self._read(), _READY, "the connection")
        self._hello()

    def secure(self, ca_file: str) -> None:
        """Switch to TLS; raises DeliveryError if that fails."""
        if "STARTTLS" not in self._offers:
            raise DeliveryError(
                f"{self._line.where} offers no STARTTLS, so no email was sent"
            )
        self._expect(self._command("STARTTLS"), _READY, "STARTTLS")
        self._line.secure(ca_file)
        # An attacker on the path may have changed the first reply.
        self._offers = {}
        self._hello()

    def log_in(self, user: str, password: str) -> None:
        """Log in; raises DeliveryError."""
        ways = self._offers.get("AUTH", "").upper().split()
        if "PLAIN" in ways:
            both = f"\0{user}\0{password}"
            reply = self._command(f"AUTH PLAIN {_base64(both)}")
        elif "LOGIN" in ways:
            reply = self._command("AUTH LOGIN")
            for word in (user, password):
                if reply.code == _GO_ON:
                    reply = self._command(_base64(word))
        else:
            raise DeliveryError(
                f"{self._line.where} offers no login with PLAIN or LOGIN"
            )
        if reply.code != _LOGGED_IN:
            raise DeliveryError(
                f"{self._line.where} answered {reply.code} to the login of {user}"
            )

    def send(self, sender: str, recipients: Sequence[str], email: bytes) -> list[str]:
        """Send an email; return the refused recipients with the reasons.

        Raises DeliveryError if every recipient was refused.
        """
        from_us = self._command(f"MAIL FROM:<{sender}>")
        self._expect(from_us, _OK, f"the sender {sender}", is_final=True)
        refused: list[str] = []
        may_pass = False
        for recipient in recipients:
            reply = self._command(f"RCPT TO:<{recipient}>")
            if reply.code // 100 != 2:  # noqa: PLR2004 - what SMTP calls success
                refused.append(f"{recipient}: {_said(reply)}")
                may_pass = may_pass or reply.code < _PERMANENT
        if len(refused) == len(recipients):
            text = f"{self._line.where} refused {'; '.join(refused)}"
            raise DeliveryError(text, may_pass=may_pass)
        self._expect(self._command("DATA"), _DATA, "DATA", is_final=True)
        self._line.write(stuffed(email))
        self._expect(self._read(), _OK, "the email", is_final=True)
        return refused

    def end(self) -> None:
        """End the session; the email is accepted whatever the server replies."""
        try:
            self._command("QUIT")
        except DeliveryError:
            return

    def _hello(self) -> None:
        reply = self._command(f"EHLO {self._line.here}")
        self._expect(reply, _OK, "EHLO")
        # The first line is a greeting.
        for line in reply.lines[1:]:
            name, _, rest = line.partition(" ")
            self._offers[name.upper()] = rest

    def _command(self, command: str) -> _Reply:
        self._line.write(f"{command}\r\n".encode("ascii", "replace"))
        return self._read()

    def _read(self) -> _Reply:
        lines: list[str] = []
        for _ in range(REPLY_LINES_MAX):
            if (match := _REPLY.fullmatch(self._line.read_line())) is None:
                break
            lines.append((match[3] or b"").decode("utf-8", "replace"))
            if match[2] != b"-":
                return _Reply(int(match[1]), tuple(lines))
        raise DeliveryError(f"{self._line.where}: its reply is not valid SMTP")

    def _expect(
        self, reply: _Reply, code: int, command: str, *, is_final: bool = False
    ) -> None:
        """Check the code of a reply; raises DeliveryError.

        Before the email, a refusal may be temporary. After that, 5xx is permanent.
        """
        if reply.code != code:
            text = f"{self._line.where} answered {_said(reply)} to {command}"
            raise DeliveryError(text, may_pass=not is_final or reply.code < _PERMANENT)


def stuffed(email: bytes) -> bytes:
    """Return an email in the form for DATA: dots doubled, with an end mark."""
    assert b"\n" not in email.replace(b"\r\n", b""), "lines end with CRLF"
    assert b"\r" not in email.replace(b"\r\n", b""), "lines end with CRLF"
    if not email.endswith(b"\r\n"):
        email += b"\r\n"
    doubled = email.replace(b"\r\n.", b"\r\n..")
    if doubled.startswith(b"."):
        doubled = b"." + doubled
    return doubled + b".\r\n"


def _said(reply: _Reply) -> str:
    text = last_line("\n".join(reply.lines))
    return f"{reply.code} {text}".rstrip()


def _base64(text: str) -> str:
    return binascii.b2a_base64(text.encode(), newline=False).decode()
