"""Notifications to syslog in the format of RFC 5424, with structured data.

Messages go to the local daemon by its socket, or to a remote one by UDP (RFC 5426), TCP
with octet counting (RFC 6587, 3.4.1) or TLS (RFC 5425). Syslog has no answers: with TCP
and TLS, a notification counts as delivered if the daemon closed the connection
properly. With UDP, the delivery is unknown.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator

from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.integrations.kind import Entry, Faults, SinkKind
from forewarn.agent.options import CA_FILE, Forms
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.line import Line
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.shared import (
    CHECK_SECONDS,
    KindSink,
    send_locally,
    timeout_key,
)
from forewarn.agent.sinks.wording import cut_bytes, plain, sentence, severity, title
from forewarn.clock import Clock
from forewarn.instants import format_instant
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

LOCAL_SOCKET = "/dev/log"
SD_ID = "forewarn@32473"
"""32473 is the example number of RFC 5612. Use your own number, if you have one."""

APP_NAME = "forewarn-agent"

DATAGRAM_BYTES_MAX = 2_048
"""Maximum size that every receiver should accept by UDP (RFC 5426, 3.2)."""

MESSAGE_BYTES_MAX = 8_192
"""Maximum size for the other transports: the usual default of daemons."""

VALUE_SHARE = 16
"""Each value of the structured data may take one part in this many of a message."""

REFUSAL_SECONDS = 0.02
"""How long to wait for the refusal of a datagram by a nearby host."""

FACILITIES = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp"),
    *("cron", "authpriv", "ftp", "ntp", "security", "console", "solaris-cron"),
    *(f"local{number}" for number in range(8)),
)
"""The facilities, in the order of their numbers (RFC 5424, 6.2.1)."""

FACILITY = "daemon"

_PORTS = {"udp": 514, "tcp": 601, "tls": 6514}
_REMOTE = re.compile(
    r"(?P<way>udp|tcp|tls)://(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))"
    r"(?::(?P<port>[0-9]{1,5}))?/?",
    re.ASCII,
)
_SD_ID = re.compile(r"[!#-<>-Z\\^-~]{1,26}@[0-9]+(?:\.[0-9]+)*", re.ASCII)
_SD_ID_MAX = 32
_PORT_MAX = 65_535
_BOM = b"\xef\xbb\xbf"
_WATCHES = "/run/systemd/journal/"


@frozen_dataclass
class Address:
    """The address of a daemon."""

    way: str
    """`unix`, `udp`, `tcp` or `tls`."""
    host: str
    """The host; with `unix`, the path of the socket."""
    port: int = 0


def address_of(text: str) -> Address | None:
    """Return the parts of an address; None: it is invalid."""
    if text.startswith("/"):
        return Address(way="unix", host=text)
    if (match := _REMOTE.fullmatch(text)) is None:
        return None
    port = int(match["port"] or _PORTS[match["way"]])
    if not 0 < port <= _PORT_MAX:
        return None
    return Address(way=match["way"], host=match["six"] or match["host"], port=port)


def faults(entry: Entry) -> Faults:
    """Find invalid settings."""
    if "address" in entry:
        if (address := address_of(entry["address"])) is None:
            yield "address", "must be a path, udp://host:514, tcp://… or tls://…"
        elif "ca_file" in entry and address.way != "tls":
            yield "ca_file", "is for tls:// only"
    sd_id = entry.get("sd_id", SD_ID)
    if not _SD_ID.fullmatch(sd_id) or len(sd_id) > _SD_ID_MAX:
        yield "sd_id", f"must be a name with an enterprise number, such as {SD_ID}"


class SyslogSink(KindSink):
    """Sends each notification as one message."""

    def __init__(self, settings: NotifySettings, clock: Clock) -> None:
        """Store the settings."""
        super().__init__(settings, clock)
        more = settings.more
        address = address_of(more.get("address", LOCAL_SOCKET))
        assert address is not None, more["address"]
        self._address = address
        self._facility: str = more.get("facility", FACILITY)
        self._sd_id: str = more.get("sd_id", SD_ID)

    def deliver(self, number: int, notification: Notification) -> None:
        """Send one message; raises DeliveryError."""
        way = self._address.way
        most = DATAGRAM_BYTES_MAX if way == "udp" else MESSAGE_BYTES_MAX
        data = message(
            number,
            notification,
            facility=self._facility,
            sd_id=self._sd_id,
            bytes_max=most,
        )
        if way == "unix":
            send_locally(self._address.host, data, seconds=self._seconds)
            return
        with self._line(self._seconds) as line:
            if way == "udp":
                line.write(data)
                if line.is_refused(REFUSAL_SECONDS):
                    raise DeliveryError(f"{line.where}: connection refused")
                return
            if way == "tls":
                line.secure(self._ca_file)
            line.write(b"%d %s" % (len(data), data))
            line.finish()

    def _wrong(self) -> Iterator[str]:
        """Yield why the daemon cannot be used; nothing is sent."""
        place = self._address.host
        if self._address.way != "unix":
            with self._line(min(self._seconds, CHECK_SECONDS)) as line:
                if self._address.way == "tls":
                    line.secure(self._ca_file)
        elif os.path.realpath(place).startswith(_WATCHES):
            text = f"{place} belongs to journald, which does not support RFC 5424: "
            yield f'{text}use kind = "journald"'
        else:
            send_locally(place, b"", seconds=CHECK_SECONDS)

    def _line(self, seconds: float) -> Line:
        is_datagram = self._address.way == "udp"
        return Line(
            self._address.host,
            self._address.port,
            clock=self._clock,
            seconds=seconds,
            kind=socket.SOCK_DGRAM if is_datagram else socket.SOCK_STREAM,
        )


def message(
    number: int,
    notification: Notification,
    *,
    facility: str,
    sd_id: str,
    bytes_max: int,
) -> bytes:
    """Return one message (RFC 5424, 6), cut at its end if it is too long."""
    priority = FACILITIES.index(facility) * 8 + severity(notification)
    note, values = notification.note, notification.words(number)
    host = "".join(c if "!" <= c <= "~" else "-" for c in notification.vm)[:255] or "-"
    head = (
        f"<{priority}>1 {format_instant(note.at)} {host} {APP_NAME} {os.getpid()} "
        f"{note.kind.value} "
    )
    members = {
        "number": str(number),
        "kind": note.kind.value,
        **{
            name: values[f"event_{name}"]
            for name in ("id", "type", "status", "source", "not_before", "duration")
            if note.notice is not None or name == "id"
        },
        "resources": values["event_resources"],
        "handler": note.handler,
    }
    data = " ".join(
        f'{name}="{_value(text, bytes_max // VALUE_SHARE)}"'
        for name, text in members.items()
        if text
    )
    start = f"{head}[{sd_id} {data}] ".encode("utf-8", "replace")
    text = f"{title(notification)}. {sentence(notification)}"
    # A text with more than ASCII starts with a byte order mark (6.4).
    start += b"" if text.isascii() else _BOM
    return start + cut_bytes(text, max(0, bytes_max - len(start)))


def _value(text: str, bytes_max: int) -> str:
    """Return a value for use between quotes (RFC 5424, 6.3.3)."""
    cut = cut_bytes(plain(text, bytes_max), bytes_max).decode()
    return re.sub(r'(["\\\]])', r"\\\1", cut)


KIND = SinkKind(
    make=SyslogSink,
    name=lambda settings: f"syslog at {settings.more.get('address', LOCAL_SOCKET)}",
    keys={
        "address": Option(
            form=Forms.TEXT,
            text="The daemon: the path of its socket, `udp://host:514`, "
            f"`tcp://host:601` or `tls://host:6514`. Default: `{LOCAL_SOCKET}`.",
        ),
        "facility": Option(
            form=Forms.WORD,
            words=FACILITIES,
            text=f"The facility, such as `local3`. Default: `{FACILITY}`.",
        ),
        "sd_id": Option(
            form=Forms.TEXT,
            text="The name of the structured data, with your enterprise number. "
            f"Default: `{SD_ID}`, with the example number.",
        ),
        "ca_file": CA_FILE,
        "timeout": timeout_key(),
    },
    faults=faults,
)
