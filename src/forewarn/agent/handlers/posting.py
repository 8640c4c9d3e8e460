"""One request from a template, for the webhooks of handlers and of notifications.

Values are quoted for their place: as a JSON string in a body, with percent signs in a
URL, and without line ends in a header. The secret is read for each request, so that it
can be changed while the agent runs. It is used only in headers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from forewarn.agent import forms
from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.handlers.secret import SecretError, read_secret
from forewarn.agent.wire.http import Answer, Client, HttpError, parse_url
from forewarn.agent.wire.refusals import retry_after
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

ANSWER_BYTES_MAX = 64 * 1024
"""Maximum length of a response, in bytes: only the status and an error message count."""

REACH_TIMEOUT: Micros = 3 * SECOND
"""Timeout for the connection in a check, while a person waits."""

_SLASHES = 3
"""Slashes in a URL up to the end of its host."""

SECRET_PART_MIN = 6
"""Minimum length of a part of a URL or header that errors mask, in characters; shorter
parts are words."""

_LONG_PART = 16
"""Minimum length of a path segment that is masked: webhooks of chats have such secrets."""

_PLAIN_HEADERS = frozenset({"accept", "content-type", "user-agent"})
"""Headers whose values are not secret."""

SAID_BYTES = 4_096
"""Bytes of an error response that are searched for a message."""

REDIRECTS = range(300, 400)

_AGAIN = frozenset({408, 425, 429})
"""Statuses that can be temporary, in addition to 5xx."""


@frozen_dataclass
class Template:
    """A request with {placeholders}."""

    url: str
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    """Empty: the default body of the caller."""
    secret_file: str = ""
    ca_file: str = ""


def said_in(answer: Answer, *, also: Sequence[str] = ()) -> str:
    """Return the message in an error response, for people; empty: none.

    `also` has further secrets to mask.
    """
    text = answer.body[:SAID_BYTES].decode("utf-8", "replace")
    text_or_location, location = last_line(text, also=also), answer.header("location")
    if answer.status not in REDIRECTS or (text_or_location and not location):
        return text_or_location
    where = last_line(location or "no location", also=also)
    return f"a redirect to {where}, which is not followed: set the server's final URL"


class Post:
    """One request that can be sent once or several times."""

    def __init__(
        self, template: Template, values: Mapping[str, str], *, usual: str, clock: Clock
    ) -> None:
        """Fill in the template; raises DeliveryError."""
        try:
            url = parse_url(forms.fill(template.url, values, forms.percent_quoted))
        except ValueError as error:
            raise DeliveryError(str(error), may_pass=False) from error
        body = forms.fill(template.body, values, forms.json_quoted) or usual
        self._body = body.encode("utf-8", "replace")
        self._template = template
        self._values = values
        self._target = url.target or "/"
        self._wire = Client(
            url, clock=clock, ca_file=template.ca_file, body_max=ANSWER_BYTES_MAX
        )

    def send(self, *, seconds: float) -> None:
        """Send the request once, within that time; raises DeliveryError."""
        headers = self._headers()
        try:
            answer = self._wire.send(
                self._template.method,
                self._target,
                self._body,
                headers=headers,
                timeout=round(seconds * SECOND),
            )
        except HttpError as error:
            raise DeliveryError(error.message) from error
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - what HTTP calls success
            reason = said_in(answer, also=secrets_of(self._template))
            may_pass = answer.status in _AGAIN or answer.status >= 500  # noqa: PLR2004
            text = f"the answer was {answer.status}"
            raise DeliveryError(
                f"{text}: {reason}" if reason else text,
                may_pass=may_pass,
                status=answer.status,
                wait=retry_after(answer),
            )

    def interrupt(self) -> None:
        """Abort the request permanently, from another thread."""
        self._wire.interrupt()

    def _headers(self) -> tuple[tuple[str, str], ...]:
        template = self._template
        headers = dict(template.headers)
        values = dict(self._values)
        if template.secret_file:
            values["secret"] = read_secret(template.secret_file)
            if not any("{secret}" in text for text in headers.values()):
                headers["Authorization"] = "Bearer {secret}"
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        return tuple(
            (name, forms.fill(text, values, _one_line))
            for name, text in headers.items()
        )


def secrets_of(template: Template) -> tuple[str, ...]:
    """Return the parts of a template to mask: values of headers and of the query.

    Secrets should be in a file, but some users put them into the settings. Values of
    the event are not secret.
    """
    secrets = [
        word
        for name, text in template.headers
        if name.lower() not in _PLAIN_HEADERS
        # If there are several words, the first is a scheme such as Bearer.
        for word in text.split()[1:] or [text]
    ]
    path, _, query = template.url.partition("?")
    secrets += [pair.rpartition("=")[2] for pair in query.split("&")]
    secrets += [
        segment for segment in path.split("/")[_SLASHES:] if len(segment) >= _LONG_PART
    ]
    return tuple(
        secret
        for secret in secrets
        if "{" not in secret and len(secret) >= SECRET_PART_MIN
    )


def faults(template: Template, known: Mapping[str, object]) -> list[str]:
    """Return the problems of a template, one sentence each."""
    problems: list[str] = []
    if template.secret_file:
        try:
            read_secret(template.secret_file)
        except SecretError as error:
            problems.append(error.message)
    in_headers = {**known, "secret": ""}
    texts = [
        ("the URL", template.url, known),
        ("the body", template.body, known),
        *((f"the header {name}", text, in_headers) for name, text in template.headers),
    ]
    for where, text, allowed in texts:
        problems += [
            f"{where} has an unknown placeholder {{{name}}}"
            for name in forms.unknown_places(text, allowed)
        ]
    try:
        json.loads(forms.fill(template.body or "{}", dict.fromkeys(known, "0")))
    except ValueError:
        if not any(name.lower() == "content-type" for name, _ in template.headers):
            problems.append("the body is not JSON: set a header Content-Type")
    return problems


def unreached(template: Template, *, clock: Clock) -> list[str]:
    """Return why the server of a template cannot be reached; nothing is sent.

    If the host contains a placeholder, nothing is checked.
    """
    fixed = template.url.partition("{")[0]
    if fixed != template.url and fixed.count("/") < _SLASHES:
        return []
    try:
        Client(parse_url(fixed), clock=clock, ca_file=template.ca_file).reach(
            timeout=REACH_TIMEOUT
        )
    except HttpError as error:
        return [error.message]
    return []


def _one_line(text: str) -> str:
    """Return a string that is valid in a header."""
    return "".join(c if " " <= c <= "~" else "?" for c in text)
