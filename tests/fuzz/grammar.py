"""Bytes to send: well-formed, nearly so, hostile, and noise; all from one Random."""

import itertools
import json
from collections.abc import Sequence
from random import Random

from tests.fuzz import oracle
from tests.fuzz.oracle import Ask
from tests.unit.metadata.support import EVENT_ID

BODY_MAX = 128 * 1024

_METHODS = (
    *(("GET",) * 6 + ("POST",) * 4),
    *("HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE", "get", "Post"),
)
_PATHS = (
    *(oracle.EVENTS,) * 6,
    "/metadata/scheduledEvents",
    "/METADATA/SCHEDULEDEVENTS",
    oracle.EVENTS + "/",
    oracle.INSTANCE_LEAF,
    oracle.INSTANCE_TREE,
    oracle.INSTANCE_NOTHING,
    "/metadata/instance",
    "/metadata/versions",
    "/metadata",
    "/metadata/scheduledevents/x",
    "/metadata/forewarn/events",
    "/metadata%2Fscheduledevents",
    "/",
    "/favicon.ico",
)
_BAD_BODIES = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b"{",
    b'{"StartRequests":[]}',
    b'{"StartRequests":{}}',
    b'{"StartRequests":[{"EventId":7}]}',
    b'{"StartRequests":[{"EventId":"nothing"}]}',
    b'{"StartRequests":[NaN]}',
    b"\xff\xfe",
    b"[" * 2000,
    b"9" * 5000,
)
_OTHER_HEADERS = (
    ("Accept", "*/*"),
    ("User-Agent", "curl/8.5.0"),
    ("Content-Type", "application/json"),
    ("Cookie", "a=b; c=d"),
    ("X-Empty", ""),
    ("X-Latin", "caf\xe9"),
    ("x-instance-id", "11111111-2222-3333-4444-555555555555"),
    ("Accept-Encoding", "gzip, br"),
    ("X-Long", "y" * 600),
)
_WAITS = ("0", "1", "60", "060", "600", "999999999", "", "x", "-1", "1.5", "9" * 10)
_FORWARDED = (("X-Forwarded-For", "1.2.3.4"), ("x-forwarded-for", ""))


def ask(rng: Random) -> Ask:
    """Return a well-formed request, most often one that a client would send."""
    method = rng.choice(_METHODS)
    path = rng.choice(_PATHS)
    body, is_approval = b"", False
    if method == "POST" or rng.random() < 0.05:
        body, is_approval = _approval(rng)
    is_old = rng.random() < 0.05
    return Ask(
        method=method,
        path=path,
        query=_query(rng, path),
        headers=_headers(rng, is_old=is_old),
        body=body,
        is_approval=is_approval,
        chunked=bool(body) and not is_old and rng.random() < 0.4,
        is_old=is_old,
    )


def _query(rng: Random, path: str) -> tuple[tuple[str, str], ...]:
    instance = path.lower().startswith("/metadata/instance")
    good = oracle.INSTANCE_VERSIONS if instance else oracle.EVENT_VERSIONS
    pairs = [("api-version", rng.choice(good))]
    if rng.random() < 0.1:
        pairs = [("api-version", rng.choice(oracle.BAD_VERSIONS))]
    elif rng.random() < 0.05:
        pairs = pairs * 2 if rng.random() < 0.5 else []
    if instance and rng.random() < 0.6:
        pairs.append(("format", rng.choice(("text", "text", "json", "TEXT", "xml"))))
        if pairs[-1] == ("format", "TEXT"):
            pairs[-1] = ("format", "text")
    if rng.random() < 0.2:
        pairs.insert(rng.randrange(len(pairs) + 1), ("other", "1"))
    if rng.random() < 0.2:
        waits = [("wait", rng.choice(_WAITS)) for _ in range(rng.choice((1, 1, 1, 2)))]
        pairs += waits
    return tuple(pairs)


def _headers(rng: Random, *, is_old: bool) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    if rng.random() < 0.9:
        value = rng.choice(("true",) * 6 + ("True", "TRUE", "false", "", "true,true"))
        headers.append((rng.choice(("Metadata", "metadata", "METADATA")), value))
        if rng.random() < 0.03:
            headers.append(("metadata", "true"))
    if rng.random() < 0.04:
        headers.append(rng.choice(_FORWARDED))
    if rng.random() < 0.3:
        tags = ('"1"', "1", '"0"', 'W/"1"', "*", '"7", "1"', '""', "1 ")
        headers.append(("If-None-Match", rng.choice(tags)))
    if rng.random() < 0.08:
        options = ("close", "Close", "keep-alive", "keep-alive, close")
        headers.append(("Connection", rng.choice(options)))
    elif rng.random() < 0.05:
        # What Java's client offers with its first request, POSTs included.
        headers.append(("Connection", "Upgrade, HTTP2-Settings"))
        headers.append((rng.choice(("Upgrade", "upgrade")), "h2c"))
    elif is_old and rng.random() < 0.5:
        headers.append(("Connection", "keep-alive"))
    if rng.random() < 0.06:
        value = rng.choice(("100-continue", "100-Continue", "a-miracle"))
        headers.append(("Expect", value))
    headers += rng.sample(_OTHER_HEADERS, rng.randrange(4))
    rng.shuffle(headers)
    return tuple(headers)


def _approval(rng: Random) -> tuple[bytes, bool]:
    if rng.random() < 0.3:
        return rng.choice(_BAD_BODIES), False
    value: dict[str, object] = {
        "StartRequests": [{"EventId": EVENT_ID}] * rng.randrange(1, 4)
    }
    if rng.random() < 0.3:
        value["DocumentIncarnation"] = rng.choice((2, "2"))
    indent = rng.choice((None, None, 2, "\t"))
    text = json.dumps(value, indent=indent)
    if rng.random() < 0.1:
        text = "\r\n" + text + " \r\n"
    return text.encode(), True


def wire(rng: Random, request: Ask) -> bytes:
    """Return the bytes of a well-formed request, in one of many spellings."""
    query = "&".join(f"{name}={value}" for name, value in request.query)
    target = request.path + (f"?{query.replace(' ', '%20')}" if query else "")
    lines = [f"{request.method} {target} HTTP/1.{0 if request.is_old else 1}"]
    headers = [*request.headers]
    if not request.is_old or rng.random() < 0.5:
        headers.insert(rng.randrange(len(headers) + 1), ("Host", "169.254.169.254"))
    body = request.body
    if request.chunked:
        coding = rng.choice(("chunked", "Chunked"))
        headers.insert(rng.randrange(len(headers) + 1), ("Transfer-Encoding", coding))
        body = chunked(rng, body)
    elif body or request.method == "POST":
        headers.append(("Content-Length", str(len(body))))
    # The parser takes a tab around most values, but refuses it around a coding.
    before, after = ("", " ", " ", "  ", "\t"), ("", "", "", " ", "\t ")
    lines += [
        f"{name}: {value}"
        if name in {"Transfer-Encoding", "Content-Length"}
        else f"{name}:{rng.choice(before)}{value}{rng.choice(after)}"
        for name, value in headers
    ]
    blank = b"\r\n" if rng.random() < 0.03 else b""
    return blank + "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def chunked(rng: Random, body: bytes) -> bytes:
    """Return a body in chunks, sometimes with extensions and trailers."""
    parts: list[bytes] = []
    rest = body
    while rest:
        size = min(len(rest), rng.choice((1, 2, 7, 40, 4096)))
        number = rng.choice((b"%x", b"%X", b"0%x", b"000%x")) % size
        extension = rng.choice((b"", b"", b"", b";a", b";a=b", b';a="b;c"'))
        parts.append(number + extension + b"\r\n" + rest[:size] + b"\r\n")
        rest = rest[size:]
    trailer = rng.choice((b"", b"", b"X-Trailer: t\r\n", b"X: y\r\nZ: \r\n"))
    return b"".join(parts) + b"0\r\n" + trailer + b"\r\n"


# What is wrong

_SMUGGLED = b"GET /metadata/versions HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n"

_HEAD = "POST {target} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n"

_FRAMES: Sequence[bytes] = (
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n",
    b"Content-Length: 4\r\nContent-Length: 4\r\n",
    b"Content-Length: 4, 4\r\n",
    b"Content-Length: +4\r\n",
    b"Content-Length: -4\r\n",
    b"Content-Length: 0x4\r\n",
    b"Content-Length: 4.0\r\n",
    b"Content-Length: 4 4\r\n",
    b"Content-Length: \r\n",
    b"Content-Length: 4\x0b\r\n",
    b"Content-Length: 99999999999999999999999999\r\n",
    b"Content-Length: 18446744073709551620\r\n",
    b"Content-Length : 4\r\n",
    b"Content-Length:\r\n 4\r\n",
    b"Content-Length: 4\r\n\tx\r\n",
    b" Content-Length: 4\r\n",
    b"Content-Length: 4\nX: y\r\n",
    b"Content-Length: 4\rX: y\r\n",
    b"Content-Length: 4\r\r\n",
    b"Content\x00-Length: 4\r\n",
    b"Content-Length: 4\x00\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: chunked, gzip\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding: xchunked\r\n",
    b"Transfer-Encoding: chunked;q=1\r\n",
    b'Transfer-Encoding: "chunked"\r\n',
    b"Transfer-Encoding: \x0bchunked\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    b"Transfer-Encoding: \r\n",
    b"Host: y\r\n",
    b"X: a\x00b\r\n",
    b"X: a\x01b\r\n",
    b"X\x7f: a\r\n",
    b"X y: a\r\n",
    b": a\r\n",
    b"X\r\n",
    b"(X): a\r\n",
)

_CHUNKS: Sequence[bytes] = (
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n",
    b" 5\r\nhello\r\n0\r\n\r\n",
    b"\r\n5\r\nhello\r\n0\r\n\r\n",
    b"5\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhelloXX0\r\n\r\n",
    b"5\r\nhello0\r\n\r\n",
    b"5;a=\nb\r\nhello\r\n0\r\n\r\n",
    b"5;\x00\r\nhello\r\n0\r\n\r\n",
    b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    b'5;a="b\r\nhello\r\n0\r\n\r\n',
    b"5;;\r\nhello\r\n0\r\n\r\n",
    b"5;=b\r\nhello\r\n0\r\n\r\n",
    b"5;a b\r\nhello\r\n0\r\n\r\n",
    b"5,3\r\nhello\r\n0\r\n\r\n",
    b"\r\nhello\r\n0\r\n\r\n",
    b"g\r\nhello\r\n0\r\n\r\n",
    b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n0\r\nX: a\x00b\r\n\r\n",
    b"5\r\nhello\r\n0\r\n x: folded\r\n\r\n",
    b"5\r\nhello\r\n0\r\nX : a\r\n\r\n",
    b"5\r\nhello\r\n0\nX: a\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\nX",
)

_LINES: Sequence[bytes] = (
    b"GET  /metadata/versions HTTP/1.1\r\n",
    b"GET /metadata/versions  HTTP/1.1\r\n",
    b"GET\t/metadata/versions HTTP/1.1\r\n",
    b"GET /metadata/versions HTTP/1.1 \r\n",
    b"GET /metadata/versions HTTP/1.1\n",
    b"GET /metadata/versions HTTP/1.1\r\r\n",
    b"GET /metadata/versions\r\n",
    b"GET /metadata/versions HTTP/0.9\r\n",
    b"GET /metadata/versions HTTP/2.0\r\n",
    b"GET /metadata/versions HTTP/1.2\r\n",
    b"GET /metadata/versions HTTP/11\r\n",
    b"GET /metadata/versions http/1.1\r\n",
    b"GET /metadata/versions HTTP/1.1x\r\n",
    b"GET /metadata/ver sions HTTP/1.1\r\n",
    b"GET /metadata/ver\x00sions HTTP/1.1\r\n",
    b"GET /metadata/ver\rsions HTTP/1.1\r\n",
    b"GET metadata/versions HTTP/1.1\r\n",
    b" GET /metadata/versions HTTP/1.1\r\n",
    b"get /metadata/versions HTTP/1.1\r\n",
    b"G\x00T /metadata/versions HTTP/1.1\r\n",
    b"SOURCE /metadata/versions ICE/1.0\r\n",
    b"OPTIONS * RTSP/1.0\r\n",
    b"PRI * HTTP/2.0\r\n",
)


def hostile(rng: Random) -> bytes:
    """Return one request that readers may differ on, and one that it hides."""
    target = f"{oracle.EVENTS}?api-version=2020-07-01"
    head = _HEAD.format(target=target).encode()
    kind = rng.randrange(3)
    if kind == 0:
        frame = rng.choice(_FRAMES)
        body = rng.choice((b"0\r\n\r\n", b"4\r\nabcd\r\n0\r\n\r\n", b"abcd", b""))
        return head + frame + b"\r\n" + body + _SMUGGLED
    if kind == 1:
        coding = b"Transfer-Encoding: chunked\r\n\r\n"
        return head + coding + rng.choice(_CHUNKS) + _SMUGGLED
    line = rng.choice(_LINES)
    return line + b"Host: x\r\nMetadata: true\r\n\r\n" + _SMUGGLED


_PIECES = (
    *(b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\x00", b" ", b"\t", b":", b";", b","),
    *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    *(b"HTTP/1.1", b"GET ", b"POST ", b"Host: x\r\n", b"\xff", b"%", b"#", b"\x7f"),
    *(b"Connection: close\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    *(b"Expect: 100-continue\r\n", b"CONNECT ", b"99999999999999999999", b"\x80"),
    *(b"Connection: keep-alive, close\r\n", b"\r\n ", b"-1", b"0x", b"HTTP/1.0"),
)


def mutated(rng: Random, stream: bytes) -> bytes:
    """Return `stream` with a few small things wrong."""
    data = bytearray(stream)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if data:
                data[min(at, len(data) - 1)] = rng.randrange(256)
            case 1:
                del data[at : at + rng.choice((1, 1, 2, 5, 40))]
            case 2:
                data[at:at] = rng.choice(_PIECES)
            case 3:
                data[at : at + 1] = rng.choice(_PIECES)
            case 4:
                start = rng.randrange(len(data) + 1)
                data[at:at] = data[start : start + rng.randrange(60)]
            case _:
                del data[at:]
    return bytes(data)


def noise(rng: Random) -> bytes:
    """Return bytes that are no HTTP, or only look like it."""
    match rng.randrange(4):
        case 0:
            return rng.randbytes(rng.randrange(1, 400))
        case 1:
            return b"\x16\x03\x01" + rng.randbytes(rng.randrange(200))
        case 2:
            return b"".join(rng.choices(_PIECES, k=rng.randrange(1, 40)))
        case _:
            return _large(rng)


def _large(rng: Random) -> bytes:
    """Return what is well-formed and too much."""
    line = f"GET {oracle.EVENTS}?api-version=2020-07-01 HTTP/1.1\r\n".encode()
    post = f"POST {oracle.EVENTS}?api-version=2020-07-01 HTTP/1.1\r\n".encode()
    usual = b"Host: x\r\nMetadata: true\r\n"
    match rng.randrange(6):
        case 0:
            return b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + usual + b"\r\n"
        case 1:
            return line + usual + b"X: y\r\n" * 120 + b"\r\n"
        case 2:
            return line + usual + b"X: " + b"y" * 40_000 + b"\r\n\r\n"
        case 3:
            return post + usual + b"Content-Length: %d\r\n\r\n" % (BODY_MAX + 1)
        case 4:
            return line + usual + b"X" * 40_000
        case _:
            chunks = b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"T: t\r\n" * 6000
            return post + usual + chunks


def cuts(rng: Random, stream: bytes) -> list[bytes]:
    """Return `stream` in pieces, cut at random."""
    most = min(len(stream), rng.choice((1, 2, 3, 8, 30)))
    at = sorted(rng.sample(range(1, len(stream) + 1), most)) if stream else []
    edges = [0, *at, len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    return [piece for piece in pieces if piece]
