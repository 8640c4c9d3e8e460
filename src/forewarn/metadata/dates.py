"""The Date header of every response (RFC 9110, 6.6.1).

Documents are rendered when they change and served for a long time, so the date is
added when they are sent. Its text is created once per second for all connections.
"""

from forewarn.clock import Clock
from forewarn.instants import SECOND, format_http_date
from forewarn.metadata.http import Response

KEPT_MAX = 1024
"""Maximum number of payloads that are kept with their date for one second: all VMs of a
view get the same one. More views in one second are rare, and cost 0.5 µs each."""

KEPT_BYTES_MAX = 4096
"""Maximum bytes of such a payload, so that all of them together have at most 4 MiB."""

_LINE_END = b"\r\n"


class Dates:
    """The current Date header, by the clock of the model."""

    __slots__ = ("_clock", "_made", "line", "until")

    def __init__(self, clock: Clock) -> None:
        """Start without a text."""
        self._clock = clock
        self._made: dict[bytes, bytes] = {}
        """Payloads with the date of this second, by the payload without a date."""
        self.line = b""
        """The current header, with its line end."""
        self.until = float("-inf")
        """The I/O time up to which `line` is current."""

    def renew(self, monotonic: float) -> None:
        """Create the text of the second that contains `monotonic`."""
        now = self._clock.now()
        self.line = f"Date: {format_http_date(now)}\r\n".encode("ascii")
        self._made.clear()
        self.until = monotonic + (SECOND - now % SECOND) / SECOND

    def forget(self) -> None:
        """Create the text again for the next response, because the clock has jumped."""
        self.until = float("-inf")

    def stamp(self, response: Response, payload: bytes, monotonic: float) -> bytes:
        """Return the `payload` of a response with the date after its status line."""
        if monotonic >= self.until:
            self.renew(monotonic)
        stamped = self._made.get(payload)
        if stamped is not None:
            return stamped
        if not response.takes_date:
            return payload
        at = payload.index(_LINE_END) + len(_LINE_END)
        stamped = payload[:at] + self.line + payload[at:]
        if len(stamped) <= KEPT_BYTES_MAX and len(self._made) < KEPT_MAX:
            self._made[payload] = stamped
        return stamped


class DatedPayload:
    """The payload of one response that is sent many times."""

    __slots__ = ("_dates", "_line", "_payload", "_response")

    def __init__(self, response: Response, dates: Dates) -> None:
        """Start without a date."""
        self._response = response
        self._dates = dates
        self._line = b""
        self._payload = response.payload

    def at(self, monotonic: float) -> bytes:
        """Return the bytes to send at the I/O time `monotonic`."""
        dates = self._dates
        if monotonic >= dates.until:
            dates.renew(monotonic)
        if self._line is not dates.line:
            self._line = dates.line
            response = self._response
            self._payload = dates.stamp(response, response.payload, monotonic)
        return self._payload
