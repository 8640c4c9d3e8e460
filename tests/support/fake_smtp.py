"""A mail server of our own that keeps to RFC 5321 and takes nothing that does not.

It speaks real SMTP on a loopback socket, with STARTTLS (RFC 3207), AUTH (RFC 4954) and
TLS from the first byte; what a client does wrong is kept in `sins`, and is refused. A
test may script answers by command, and have it hang.
"""

import base64
import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Generator
from dataclasses import dataclass, field

LINE_MAX = 512
TEXT_LINE_MAX = 1_000

_PATH = re.compile(r"<([^<>\s]+@[^<>\s]+)>")
_HELLO = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9.]+\]|\[IPv6:[0-9A-Fa-f:.]+\]")


@dataclass
class Letter:
    """A letter that was taken."""

    sender: str
    recipients: list[str]
    data: bytes
    """As it is after the dots were taken away."""
    was_secret: bool
    user: str


@dataclass
class FakeSmtp:
    """The behavior of the server, and the received messages."""

    port: int = 0
    letters: list[Letter] = field(default_factory=list)
    sins: list[str] = field(default_factory=list)
    """The protocol errors of clients."""
    commands: list[str] = field(default_factory=list)
    answers: dict[str, list[str]] = field(default_factory=dict)
    """For each of `RCPT`, `DATA`, `.` and so on, the next replies before the usual
    ones."""
    hangs_at: str = ""
    offers: list[str] = field(default_factory=lambda: ["PIPELINING", "SIZE 1000000"])
    logins: dict[str, str] = field(default_factory=dict)
    ways: str = "PLAIN LOGIN"
    says_early: bytes = b""
    """Bytes that an attacker adds after the response to STARTTLS."""
    released: threading.Event = field(default_factory=threading.Event)


class _EndError(Exception):
    pass


class _Session:
    def __init__(
        self, server: FakeSmtp, wire: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        self._server = server
        self.wire = wire
        self._tls = tls
        self._unread = b""
        self._user = ""
        self._greeted = False
        self._sender: str | None = None
        self._recipients: list[str] = []

    @property
    def _is_secret(self) -> bool:
        return isinstance(self.wire, ssl.SSLSocket)

    def run(self) -> None:
        self._answer("220 mail.example.com ESMTP", "greeting")
        while True:
            line = self._line(LINE_MAX)
            verb = line.split(" ")[0].upper()
            self._server.commands.append(verb)
            method = getattr(self, f"_do_{verb.lower()}", None)
            if method is None:
                self._sin(f"unknown command {line!r}")
                self._say("500 what?")
            else:
                method(line)

    # Commands

    def _do_ehlo(self, line: str) -> None:
        if not _HELLO.fullmatch(line[5:]):
            self._sin(f"hello without a name: {line!r}")
        self._greeted = True
        offers = ["mail.example.com at your service", *self._server.offers]
        if self._tls is not None and not self._is_secret:
            offers.append("STARTTLS")
        elif self._server.logins:
            offers.append(f"AUTH {self._server.ways}")
        lines = [f"250-{offer}" for offer in offers[:-1]] + [f"250 {offers[-1]}"]
        self._answer("\r\n".join(lines), "EHLO")

    def _do_starttls(self, line: str) -> None:
        if line != "STARTTLS" or self._is_secret or self._tls is None:
            self._sin("STARTTLS out of place")
        self._answer("220 go ahead", "STARTTLS", extra=self._server.says_early)
        assert self._tls is not None
        if self._unread:
            self._sin("said something before TLS")
        self.wire = self._tls.wrap_socket(self.wire, server_side=True)
        self._greeted = False

    def _do_auth(self, line: str) -> None:
        if not self._is_secret:
            self._sin("a password in the clear")
        _, way, *rest = line.split(" ")
        if way == "PLAIN":
            _, user, password = base64.b64decode(rest[0]).decode().split("\0")
        else:
            self._say("334 VXNlcm5hbWU6")
            user = base64.b64decode(self._line(LINE_MAX)).decode()
            self._say("334 UGFzc3dvcmQ6")
            password = base64.b64decode(self._line(LINE_MAX)).decode()
        if self._server.logins.get(user) == password:
            self._user = user
            self._answer("235 welcome", "AUTH")
        else:
            self._say(f"535 5.7.8 no: {line} {password}")

    def _do_mail(self, line: str) -> None:
        match = _PATH.fullmatch(line.removeprefix("MAIL FROM:"))
        if not self._greeted or self._sender is not None or match is None:
            self._sin(f"out of place: {line!r}")
        if self._server.logins and not self._user:
            self._say("530 log in first")
            return
        if self._answer("250 ok", "MAIL") and match:
            self._sender = match[1]

    def _do_rcpt(self, line: str) -> None:
        match = _PATH.fullmatch(line.removeprefix("RCPT TO:"))
        if self._sender is None or match is None:
            self._sin(f"out of place: {line!r}")
        if self._answer("250 ok", "RCPT") and match:
            self._recipients.append(match[1])

    def _do_data(self, line: str) -> None:
        if not self._recipients or line != "DATA":
            self._sin("DATA out of place")
        if not self._answer("354 go on", "DATA"):
            return
        lines: list[bytes] = []
        while (text := self._raw(TEXT_LINE_MAX)) != b".":
            lines.append(text[1:] if text.startswith(b".") else text)
        data = b"".join(each + b"\r\n" for each in lines)
        if not data.isascii():
            self._sin("8BITMIME was not offered")
        if self._answer("250 taken", "."):
            self._server.letters.append(
                Letter(
                    self._sender or "",
                    self._recipients,
                    data,
                    self._is_secret,
                    self._user,
                )
            )
        self._sender, self._recipients = None, []

    def _do_quit(self, line: str) -> None:
        self._answer("221 bye", "QUIT")
        raise _EndError

    # Lines

    def _line(self, most: int) -> str:
        return self._raw(most).decode("ascii")

    def _raw(self, most: int) -> bytes:
        while b"\n" not in self._unread:
            piece = self.wire.recv(65_536)
            if not piece:
                raise _EndError
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        if not line.endswith(b"\r") or b"\r" in line[:-1]:
            self._sin(f"a bare line end: {line!r}")
        if len(line) + 1 > most:
            self._sin(f"a long line: {len(line) + 1}")
        return line.removesuffix(b"\r")

    def _answer(self, usual: str, what: str, extra: bytes = b"") -> bool:
        """Send the scripted response or the usual one; return whether it is a success."""
        if self._server.hangs_at == what:
            self._server.released.wait(30)
            raise _EndError
        script = self._server.answers.get(what)
        text = script.pop(0) if script else usual
        self.wire.sendall(text.encode() + b"\r\n" + extra)
        if text.startswith("421"):
            raise _EndError
        return text[0] in "23"

    def _say(self, text: str) -> None:
        self.wire.sendall(text.encode() + b"\r\n")

    def _sin(self, what: str) -> None:
        self._server.sins.append(what)


@contextlib.contextmanager
def fake_smtp(
    tls: ssl.SSLContext | None = None, *, implicit: bool = False
) -> Generator[FakeSmtp]:
    """Serve until the end of the context; with `tls` it offers STARTTLS."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = FakeSmtp(port=listener.getsockname()[1])

    def serve(wire: socket.socket) -> None:
        session = None
        # A client that goes in the middle is nothing to tell.
        with contextlib.suppress(OSError, _EndError):
            wire.settimeout(30)
            if implicit:
                assert tls is not None
                wire = tls.wrap_socket(wire, server_side=True)
            session = _Session(server, wire, None if implicit else tls)
            session.run()
        (session.wire if session else wire).close()

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                wire, _ = listener.accept()
                thread = threading.Thread(target=serve, args=(wire,), daemon=True)
                thread.start()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
