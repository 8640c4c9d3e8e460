"""Local servers for checks: one that speaks like Prometheus, and many that do not."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = Callable[[socket.socket, "Asked"], None]
"""Writes the answer to a request to its connection."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    target: str
    headers: Mapping[str, str]


@dataclass
class Server:
    """A server of a test, with the requests that it got."""

    url: str
    asked: list[Asked] = field(default_factory=list[Asked])
    over: threading.Event = field(default_factory=threading.Event)
    """Set at the end of the test: what hangs, stops then."""


@contextmanager
def serving(answer: Answer, *, tls: ssl.SSLContext | None = None) -> Generator[Server]:
    """Serve on a loopback address; each connection gets one answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scheme = "https" if tls else "http"
        server = Server(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        thread = threading.Thread(
            target=_accept, args=(listener, server, answer, tls), daemon=True
        )
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def _accept(
    listener: socket.socket,
    server: Server,
    answer: Answer,
    tls: ssl.SSLContext | None,
) -> None:
    while True:
        try:
            wire, _ = listener.accept()
        except OSError:
            return
        threading.Thread(
            target=_serve, args=(wire, server, answer, tls), daemon=True
        ).start()


def _serve(
    wire: socket.socket, server: Server, answer: Answer, tls: ssl.SSLContext | None
) -> None:
    try:
        with wire, tls.wrap_socket(wire, server_side=True) if tls else wire as secured:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = secured.recv(65_536)
                if not piece:
                    return
                head += piece
            first, *lines = head.decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines if line)
            request = Asked(target=first.split(" ")[1], headers=headers)
            server.asked.append(request)
            answer(secured, request)
    except OSError:
        # The client left, as it should after its deadline.
        return


def page(status: int, body: bytes = b"", *more: str) -> Answer:
    """Return an answer with a status and a body."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *more, "", ""]
    whole = "\r\n".join(lines).encode() + body
    return lambda wire, _asked: wire.sendall(whole)


def prometheus(values: Mapping[str, float]) -> Answer:
    """Answer instant queries as Prometheus' HTTP API does.

    A query is a name in `values`; another name has no series. `scalar(NAME)` is a scalar.
    """

    def answer(wire: socket.socket, asked: Asked) -> None:
        parts = urlsplit(asked.target)
        if not parts.path.endswith("/api/v1/query"):
            page(404, b"404 page not found\n")(wire, asked)
            return
        query = parse_qs(parts.query).get("query", [""])[0]
        status, body = _result(query, values)
        encoded = json.dumps(body).encode()
        page(status, encoded, "Content-Type: application/json")(wire, asked)

    return answer


def _result(query: str, values: Mapping[str, float]) -> tuple[int, dict[str, Any]]:
    if not query or query.count("(") != query.count(")"):
        error = 'invalid parameter "query": 1:1: parse error: unclosed left parenthesis'
        return 400, {"status": "error", "errorType": "bad_data", "error": error}
    name = query.removeprefix("scalar(").removesuffix(")")
    if name != query:
        text = str(values.get(name, "NaN"))
        data: dict[str, Any] = {
            "resultType": "scalar",
            "result": [1435781451.781, text],
        }
    else:
        sample = {
            "metric": {"__name__": name, "instance": "h1:9100"},
            "value": [1435781451.781, str(values.get(name))],
        }
        data = {"resultType": "vector", "result": [sample] if name in values else []}
    return 200, {"status": "success", "data": data}
