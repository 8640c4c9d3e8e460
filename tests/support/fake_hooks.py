"""Slack, Teams and Event Hubs as their documents describe them, on loopback sockets.

Fakes of ours: each judges a request as the real one is documented to, and answers as
that does. A test may have the next answers be others.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import ssl
import urllib.parse
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.loopback import Quiet, answering

Answer = tuple[int, str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Request:
    """One request that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Hook:
    """The requests that arrived, and the next responses."""

    judge: Callable[[Request], Answer]
    port: int = 0
    script: list[Answer] = field(default_factory=list)
    came: list[Request] = field(default_factory=list)
    taken: list[Request] = field(default_factory=list)
    """Those that were answered with 2xx."""


@contextlib.contextmanager
def hook(
    judge: Callable[[Request], Answer], tls: ssl.SSLContext | None = None
) -> Generator[Hook]:
    """Listen until the end of the context."""
    server = Hook(judge)

    class Answers(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            request = Request(self.path, dict(self.headers), body)
            server.came.append(request)
            status, text, headers = (
                server.script.pop(0) if server.script else server.judge(request)
            )
            if 200 <= status < 300:
                server.taken.append(request)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    with answering(Answers, tls=tls) as port:
        server.port = port
        yield server


# Slack: docs.slack.dev, "Sending messages using incoming webhooks" and "Block Kit".

SLACK_PATH = "/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"


def slack(request: Request) -> Answer:
    """Judge a message."""
    if request.path != SLACK_PATH:
        return 404, "no_service", {}
    try:
        message = request.json
    except ValueError:
        return 400, "invalid_payload", {}
    if not message.get("text"):
        return 400, "no_text", {}
    for block in message.get("blocks", ()):
        texts = [block["text"]] if "text" in block else []
        fields = block.get("fields", [])
        most = {"header": 150, "section": 3_000}[block["type"]]
        are_sound = (
            all(1 <= len(text["text"]) <= most for text in texts)
            and all(1 <= len(text["text"]) <= 2_000 for text in fields)
            and len(fields) <= 10
            and texts + fields
            and all(text["type"] in {"plain_text", "mrkdwn"} for text in texts + fields)
        )
        if not are_sound:
            return 400, "invalid_blocks", {}
    return 200, "ok", {}


# Teams: learn.microsoft.com, "Create incoming webhooks with Workflows", and the schema
# of Adaptive Cards 1.4.

TEAMS_PATH = "/workflows/0123456789abcdef/triggers/manual/paths/invoke?sig=S3CR3TS1GN"


def teams(request: Request) -> Answer:
    """Judge a message with a card."""
    if request.path != TEAMS_PATH:
        text = json.dumps({"error": {"code": "WorkflowNotFound", "message": "gone"}})
        return 404, text, {}
    if len(request.body) > 28 * 1024:
        return 413, "too large", {}
    message = request.json
    [attachment] = message["attachments"]
    card = attachment["content"]
    is_sound = (
        message["type"] == "message"
        and attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        and card["type"] == "AdaptiveCard"
        and card["version"] == "1.4"
        and all(_is_rich(block) for block in card["body"])
    )
    return (202, "", {}) if is_sound else (400, "bad card", {})


def _is_rich(block: Mapping[str, Any]) -> bool:
    return block["type"] == "RichTextBlock" and all(
        run["type"] == "TextRun" and run["text"] for run in block["inlines"]
    )


# Event Hubs: learn.microsoft.com, "Send event" and "Generate SAS token".


@dataclass
class Hub:
    """An event hub, its policies' keys, and the clock of the service."""

    resource: str
    keys: dict[str, str]
    now: float

    def judge(self, request: Request) -> Answer:
        """Check the token as the service does, and take an event."""
        path = urllib.parse.urlsplit(request.path)
        token = request.headers.get("Authorization", "")
        name = urllib.parse.urlsplit(self.resource).path
        if not self.admits(token):
            return (
                401,
                "<Error><Code>401</Code><Detail>InvalidSignature</Detail></Error>",
                {},
            )
        if path.path != f"{name}/messages":
            return 404, "<Error><Code>404</Code></Error>", {}
        if "api-version" not in urllib.parse.parse_qs(path.query):
            return 400, "<Error><Code>400</Code></Error>", {}
        return 201, "", {}

    def admits(self, token: str) -> bool:
        scheme, _, rest = token.partition(" ")
        members = dict(pair.split("=", 1) for pair in rest.split("&"))
        key = self.keys.get(urllib.parse.unquote(members["skn"]), "")
        text = f"{members['sr']}\n{members['se']}".encode()
        digest = hmac.new(key.encode(), text, hashlib.sha256).digest()
        return (
            scheme == "SharedAccessSignature"
            and urllib.parse.unquote(members["sr"]) == self.resource
            and urllib.parse.unquote(members["sig"])
            == base64.b64encode(digest).decode()
            and int(members["se"]) > self.now
        )
