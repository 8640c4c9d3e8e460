"""One request with a template: what webhooks of handlers and notifications share.

Values are quoted for where they stand: in a body as in a string of JSON, in a URL
with percent signs, in a header without line ends. The secret is read for each
request, so that it can be changed while the agent runs, and is in headers only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

from forewarn.agent import forms
from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.secret import SecretError, read_secret
from forewarn.agent.wire.http import Answer, Client, HttpError, parse_url
from forewarn.agent.wire.refusals import retry_after
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

ANSWER_BYTES_MAX = 64 * 1024
"""Of an answer only the status counts, and a line where it is a refusal."""

REACH_TIMEOUT: Micros = 3 * SECOND
"""To connect, while a person waits to hear whether that can be."""

_SLASHES = 3
"""In a URL whose host has ended."""

SECRET_PART_MIN = 6
"""Characters of a part of a URL or header that no error repeats; shorter ones are
words."""

_LONG_PART = 16
"""Characters of a part of a path that is no word: webhooks of chats have such."""

_PLAIN_HEADERS = frozenset({"accept", "content-type", "user-agent"})
"""Whose values everybody may know."""

_AGAIN = frozenset({408, 425, 429})
"""Refusals that may pass, besides all of 5xx."""


@frozen_dataclass
class Template:
    """What to send, with {placeholders}."""

    url: str
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    """Empty: `usual`, which whoever posts has."""
    secret_file: str = ""
    ca_file: str = ""


class Wire(Protocol):
    """What of `wire.http.Client` is needed."""

    def send(
        self,
        method: str,
        target: str,
        body: bytes,
        *,
        headers: tuple[tuple[str, str], ...],
        timeout: Micros,
    ) -> Answer:
        """Send a body once; raises HttpError."""
        ...

    def interrupt(self) -> None:
        """End the exchange that another thread waits for."""
        ...


class PostError(Exception):
    """The request was not taken."""

    def __init__(
        self, message: str, *, may_pass: bool, status: int = 0, wait: Micros = 0
    ) -> None:
        """Say why, and whether the same request may be taken later.

        With the status of the answer, and how long it asks to wait, where there is one.
        """
        super().__init__(message)
        self.message = message
        self.may_pass = may_pass
        self.status = status
        self.wait = wait


class Post:
    """One request that is ready to be sent, once or more often."""

    def __init__(
        self, template: Template, values: Mapping[str, str], *, usual: str, clock: Clock
    ) -> None:
        """Fill the template in; raises PostError."""
        try:
            url = parse_url(forms.fill(template.url, values, forms.percent_quoted))
        except ValueError as error:
            raise PostError(str(error), may_pass=False) from error
        body = forms.fill(template.body, values, forms.json_quoted) or usual
        self._body = body.encode("utf-8", "replace")
        self._template = template
        self._values = values
        self._target = url.target or "/"
        self._wire: Wire = Client(
            url, clock=clock, ca_file=template.ca_file, body_max=ANSWER_BYTES_MAX
        )

    def send(self, *, seconds: float) -> None:
        """Send it once, within that time; raises PostError."""
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
            raise PostError(error.message, may_pass=True) from error
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - what HTTP calls success
            body = answer.body.decode("utf-8", "replace")
            said = last_line(body, also=secrets_of(self._template))
            may_pass = answer.status in _AGAIN or answer.status >= 500  # noqa: PLR2004
            text = f"the answer was {answer.status}"
            raise PostError(
                f"{text}: {said}" if said else text,
                may_pass=may_pass,
                status=answer.status,
                wait=retry_after(answer),
            )

    def interrupt(self) -> None:
        """End it for good, from another thread."""
        self._wire.interrupt()

    def _headers(self) -> tuple[tuple[str, str], ...]:
        template = self._template
        given = dict(template.headers)
        values = dict(self._values)
        if template.secret_file:
            values["secret"] = _secret(template.secret_file)
            if not any("{secret}" in text for text in given.values()):
                given["Authorization"] = "Bearer {secret}"
        if not any(name.lower() == "content-type" for name in given):
            given["Content-Type"] = "application/json"
        return tuple(
            (name, forms.fill(text, values, _one_line)) for name, text in given.items()
        )


def secrets_of(template: Template) -> tuple[str, ...]:
    """Return what of a template no text may show: values of headers and of the query.

    They should be in a file, and some are not. What an event fills in is none.
    """
    found = [
        word
        for name, text in template.headers
        if name.lower() not in _PLAIN_HEADERS
        # Where there are several, the first says how to take the others.
        for word in text.split()[1:] or [text]
    ]
    path, _, query = template.url.partition("?")
    found += [each.rpartition("=")[2] for each in query.split("&")]
    found += [each for each in path.split("/")[_SLASHES:] if len(each) >= _LONG_PART]
    return tuple(
        each for each in found if "{" not in each and len(each) >= SECRET_PART_MIN
    )


def faults(template: Template, known: Mapping[str, object]) -> list[str]:
    """Return what is wrong with a template, one sentence each."""
    found: list[str] = []
    if template.secret_file:
        try:
            read_secret(template.secret_file)
        except SecretError as error:
            found.append(error.message)
    in_headers = {**known, "secret": ""}
    texts = [("the URL", template.url, known), ("the body", template.body, known)]
    texts += [
        (f"the header {name}", text, in_headers) for name, text in template.headers
    ]
    for where, text, allowed in texts:
        found += [
            f"{where} has {{{name}}}, which nothing replaces"
            for name in forms.unknown_places(text, allowed)
        ]
    try:
        json.loads(forms.fill(template.body or "{}", dict.fromkeys(known, "0")))
    except ValueError:
        kinds = [name for name, _ in template.headers if name.lower() == "content-type"]
        if not kinds:
            found.append("the body is no JSON: say what it is in a header Content-Type")
    return found


def unreached(template: Template, *, clock: Clock) -> list[str]:
    """Return why nobody can be reached where a template is sent; nothing is sent.

    Where that is for an event to tell, it is not looked at.
    """
    fixed = template.url.partition("{")[0]
    if fixed != template.url and fixed.count("/") < _SLASHES:
        return []
    client = Client(parse_url(fixed), clock=clock, ca_file=template.ca_file)
    try:
        client.reach(timeout=REACH_TIMEOUT)
    except HttpError as error:
        return [error.message]
    return []


def _secret(file: str) -> str:
    try:
        return read_secret(file)
    except SecretError as error:
        raise PostError(error.message, may_pass=True) from error


def _one_line(text: str) -> str:
    """Return a text as a header may have it."""
    return "".join(c if " " <= c <= "~" else "?" for c in text)
