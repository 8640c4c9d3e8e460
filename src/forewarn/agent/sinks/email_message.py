"""Write a notification as an email (RFC 5322, 2045, 2047): values in, bytes out. Pure.

Text from other sources is in the body or in an encoded header on one line, so it cannot
add headers. A notification always gives the same email with the same Message-ID.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence

from forewarn.agent.sinks.port import Told
from forewarn.agent.sinks.wording import facts, plain, sentence, title
from forewarn.instants import format_http_date

WORD_BYTES = 39
"""Maximum size of the text in an encoded word, which then has 64 characters. The first
line has at most 76 with the header's name (RFC 2047, 2)."""

BASE64_BYTES = 57
"""Size of the data in a base64 line of 76 characters (RFC 2045, 6.8)."""

LINE_BYTES_MAX = 998
"""Maximum size of a line without its end (RFC 5322, 2.1.1)."""

ID_CHARACTERS = 64

_UNFIT = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)


def email_of(
    number: int, told: Told, *, sender: str, recipients: Sequence[str]
) -> bytes:
    """Return an email; the addresses are valid and in ASCII."""
    domain = sender.rpartition("@")[2]
    note = told.note
    vm, event = _word(told.vm), _word(note.event_id)
    body = _text(number, told)
    is_plain = body.isascii() and max(map(len, body.split("\n"))) <= LINE_BYTES_MAX
    headers = [
        ("From", f"forewarn <{sender}>"),
        ("To", ",\r\n ".join(recipients)),
        ("Subject", header_text(title(told))),
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
    """Return a text as a header's value: unchanged, or in encoded words."""
    line = plain(text)
    if line.isascii() and "=?" not in line:
        return line
    words: list[str] = []
    piece = b""
    for character in line:
        data = character.encode("utf-8", "replace")
        if len(piece) + len(data) > WORD_BYTES:
            words.append(_encoded_word(piece))
            piece = b""
        piece += data
    words.append(_encoded_word(piece))
    return "\r\n ".join(words)


def _text(number: int, told: Told) -> str:
    known = facts(told)
    width = max((len(name) for name, _ in known), default=0)
    rows = [f"{name + ':':<{width + 2}}{value}" for name, value in known]
    by = f"Notification {number} of the forewarn agent in {plain(told.vm) or 'a VM'}."
    return "\n".join([sentence(told), "", *rows, "", by, ""])


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
    """Return a text for use in an identifier."""
    return _UNFIT.sub("-", text)[:ID_CHARACTERS] or "-"
