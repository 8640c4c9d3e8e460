"""A second reader of HTTP/1, which takes nothing but what RFC 9112 allows.

It is slow, it has no limits, and it shares no line with the one it judges. What
the server reads must be a beginning of what this reads: a request that the server
takes and this does not is a way to smuggle.
"""

import re
from dataclasses import dataclass

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = rb"[\t\x20-\x7e\x80-\xff]*"
_LINE = re.compile(
    rb"(?P<method>" + _TOKEN + rb") (?P<target>[!-~\x80-\xff]+) HTTP/1\.(?P<minor>[01])"
)
_HEADER = re.compile(rb"(?P<name>" + _TOKEN + rb"):[ \t]*(?P<value>" + _VALUE + rb")")
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"'
_BLANK = rb"[ \t]*"
_CHUNK = re.compile(
    rb"(?P<size>[0-9a-fA-F]+)(?:"
    + (_BLANK + rb";" + _BLANK + _TOKEN)
    + (rb"(?:" + _BLANK + rb"=" + _BLANK + rb"(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?")
    + rb")*"
)
_DIGITS = re.compile(rb"[0-9]+")


@dataclass(frozen=True)
class Item:
    """A request, as far as it matters where it ends and what it asks."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    closes: bool


@dataclass(frozen=True)
class Reading:
    """The content of a stream, and its end."""

    items: tuple[Item, ...]
    is_refused: bool = False
    """There is data after the items that is not a request."""


class _NoRequestError(Exception):
    pass


class _UnfinishedError(Exception):
    pass


def read(stream: bytes) -> Reading:
    """Return every request of `stream` up to the first that closes or is wrong."""
    cursor, items = _Cursor(stream), list[Item]()
    while True:
        cursor.skip_empty_lines()
        if cursor.is_at_end:
            return Reading(tuple(items))
        try:
            item = _item(cursor)
        except _UnfinishedError:
            return Reading(tuple(items))
        except _NoRequestError:
            return Reading(tuple(items), is_refused=True)
        items.append(item)
        if item.closes:
            return Reading(tuple(items))


class _Cursor:
    def __init__(self, stream: bytes) -> None:
        self._stream = stream
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._stream)

    def skip_empty_lines(self) -> None:
        # Between requests both CR and LF are nothing, to every reader alike.
        while self._stream[self._at : self._at + 1] in {b"\r", b"\n"}:
            self._at += 1

    def line(self) -> bytes:
        end = self._stream.find(b"\r\n", self._at)
        if end < 0:
            raise _UnfinishedError
        line, self._at = self._stream[self._at : end], end + 2
        return line

    def take(self, count: int) -> bytes:
        taken = self._stream[self._at : self._at + count]
        if len(taken) < count:
            raise _UnfinishedError
        self._at += count
        return taken


def _item(cursor: _Cursor) -> Item:
    line = _LINE.fullmatch(cursor.line())
    if line is None:
        raise _NoRequestError
    is_old = line["minor"] == b"0"
    headers = _headers(cursor)
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and not is_old):
        raise _NoRequestError
    return Item(
        method=line["method"],
        target=line["target"],
        headers=tuple(headers),
        body=_body(cursor, headers, is_old=is_old),
        closes=_closes(headers, is_old=is_old),
    )


def _headers(cursor: _Cursor) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = []
    while line := cursor.line():
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _NoRequestError
        headers.append((header["name"].lower(), header["value"].strip(b" \t")))
    return headers


def _body(
    cursor: _Cursor, headers: list[tuple[bytes, bytes]], *, is_old: bool
) -> bytes:
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise _NoRequestError
    if codings:
        if is_old or codings[0].lower() != b"chunked":
            raise _NoRequestError
        return _chunks(cursor)
    if lengths:
        if _DIGITS.fullmatch(lengths[0]) is None:
            raise _NoRequestError
        return cursor.take(int(lengths[0]))
    return b""


def _chunks(cursor: _Cursor) -> bytes:
    body = b""
    while True:
        chunk = _CHUNK.fullmatch(cursor.line())
        if chunk is None:
            raise _NoRequestError
        size = int(chunk["size"], 16)
        if not size:
            _headers(cursor)
            return body
        body += cursor.take(size)
        if cursor.take(2) != b"\r\n":
            raise _NoRequestError


def _closes(headers: list[tuple[bytes, bytes]], *, is_old: bool) -> bool:
    options = {
        option.strip(b" \t").lower()
        for name, value in headers
        if name == b"connection"
        for option in value.split(b",")
    }
    return b"close" in options or (is_old and b"keep-alive" not in options)
