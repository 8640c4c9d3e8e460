"""The command line's way to the service, and what each of its errors means."""

import contextlib
import json
import ssl
import sys
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Self, cast
from urllib.parse import quote

import httpx2

from forewarn.cli.command_table import Call
from forewarn.cli.doors import DEFAULT_URL, Place, token_of_file, trust
from forewarn.cli.failure import CommandError, Exit
from forewarn.cli.status_line import patience

CONNECT_SECONDS = 5.0
"""A service that is there answers much sooner."""

ANSWER_SECONDS = 120.0
"""A large fleet file is planned in less."""

SILENCE_SECONDS = 60.0
"""A stream gives a sign of life every twelfth of it."""

KEY_VARIABLE = "FOREWARN_IDEMPOTENCY_KEY"
"""Names a command's orders, so that a script may repeat the command."""

KEY_CHARACTERS_MAX = 200
"""Of a key: the API takes 255, and a number follows it."""

PAGE = "1000"
"""Objects that are asked for at once: as many as may be."""

_STATUS = {
    400: Exit.USAGE,
    413: Exit.USAGE,
    415: Exit.USAGE,
    429: Exit.UNREACHABLE,
    500: Exit.FAILED,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}
"""Everything else is a refusal."""


class _AnswerLostError(Exception):
    """An order was sent, and its answer did not come."""


class Client:
    """Asks the operator API."""

    def __init__(
        self, url: str, token: str = "", *, order_key: str = "", ca_file: str = ""
    ) -> None:
        """Ask the API at `url`; raises CommandError if it is no URL.

        `order_key` names the orders of this command; empty: a new name. `ca_file` has
        the authorities that a certificate must be from; empty: the system's.
        """
        place = Place.of(url)
        if not token.isascii() or not token.isprintable():
            raise CommandError(
                Exit.USAGE, "the token has characters that none may have"
            )
        if not order_key.isascii() or len(order_key) > KEY_CHARACTERS_MAX:
            raise CommandError(Exit.USAGE, f"{KEY_VARIABLE} is not a key of an order")
        self._order_key = order_key or str(uuid.uuid4())
        self._orders = 0
        self._so_far = ""
        """What a person who waits is told besides."""
        self._position = ""
        """The ID of the last message of the stream."""
        self._url = url.rstrip("/")
        self._http = httpx2.Client(
            base_url=place.base + "/",
            transport=httpx2.HTTPTransport(uds=place.socket) if place.socket else None,
            verify=trust(ca_file),
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            # A proxy for the web is no way to one's own machine.
            trust_env=not place.is_here,
        )
        if token and not place.is_private:
            sys.stderr.write(
                f"forewarn: warning: the token goes to {place.base} without encryption; "
                "use https\n"
            )

    @classmethod
    def of(cls, call: Call) -> Self:
        """Return a client as the command's flags and environment say."""
        url = call.text("url") or call.environ.get("FOREWARN_URL") or DEFAULT_URL
        token = call.text("token") or call.environ.get("FOREWARN_TOKEN", "")
        if not token:
            named = call.environ.get("FOREWARN_TOKEN_FILE", "")
            token = token_of_file(named, is_here=Place.of(url).is_here)
        ca_file = call.text("ca_file") or call.environ.get("FOREWARN_CA_FILE", "")
        order_key = call.environ.get(KEY_VARIABLE, "")
        return cls(url, token.strip(), order_key=order_key.strip(), ca_file=ca_file)

    def __enter__(self) -> Self:
        """Begin to use it."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close its connections."""
        self._http.close()

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return the JSON at a path of the API."""
        return _json(self._ask("GET", path, params=params), self._url)

    def text(self, path: str) -> str:
        """Return the text at a path of the API."""
        return self._ask("GET", path).text

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Give an order; return what became of it.

        An order whose answer was lost is sent once more, under the same key, so that
        it is carried out once.
        """
        key = self._next_key()
        try:
            answer = self._ask("POST", path, body=body, key=key)
        except _AnswerLostError:
            try:
                answer = self._ask("POST", path, body=body, key=key)
            except (CommandError, _AnswerLostError) as error:
                raise self._lost_order() from error
        return _json(answer, self._url)

    def _next_key(self) -> str:
        """Return the key of the command's next order: the same in each attempt."""
        self._orders += 1
        number = "" if self._orders == 1 else f".{self._orders}"
        return f"{self._order_key}{number}"

    def _lost_order(self) -> CommandError:
        return CommandError(
            Exit.UNREACHABLE,
            f"{self._url} took the order and gave no answer: it may have been done",
            hint=f"Repeat the command with {KEY_VARIABLE}={self._order_key} set: "
            "within 24 hours the order is carried out once.",
        )

    def delete(self, path: str) -> Any:
        """Have what is at a path removed; return what is left."""
        return _json(self._ask("DELETE", path), self._url)

    def every(
        self, path: str, key: str, params: Mapping[str, str]
    ) -> Generator[dict[str, Any]]:
        """Yield the objects of all pages of a list."""
        asked = {"limit": PAGE, **params}
        number = 0
        while True:
            page = self.get(path, asked)
            yield from page[key]
            if page["next"] is None:
                return
            asked["after"] = page["next"]
            number += len(page[key])
            self._so_far = f", {number:,} {key} so far"

    def whole(self, path: str, key: str, params: Mapping[str, str]) -> dict[str, Any]:
        """Return the first page of a list with the objects of all pages in it."""
        whole = page = self.get(path, params)
        while page["next"] is not None:
            page = self.get(path, {**params, "after": page["next"]})
            whole[key] += page[key]
        del whole["next"]
        return whole

    def watch(self, params: Mapping[str, str]) -> Generator[tuple[str, Any]]:
        """Yield the name and the data of each message of the stream of changes.

        Another call continues the stream if it can. Raises CommandError when the
        service goes away.
        """
        timeout = httpx2.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        headers = {"Last-Event-ID": self._position} if self._position else {}
        try:
            with self._http.stream(
                "GET", "v1/watch", params=params, headers=headers, timeout=timeout
            ) as answer:
                if answer.is_error:
                    answer.read()
                    raise _error_of(answer, self._url)
                yield from self._messages(answer.iter_lines())
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        raise CommandError(
            Exit.UNREACHABLE,
            f"the service at {self._url} has ended the stream",
            hint="it was probably stopped; watch again when it is back",
        )

    def _messages(self, lines: Iterator[str]) -> Generator[tuple[str, Any]]:
        """Yield the messages in the lines of server-sent events."""
        name = position = ""
        for each in lines:
            field, _, value = each.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                position = value
            elif not each:
                self._position = position
            elif field == "data":
                data = json.loads(value)
                if name == "error":
                    is_out = data.get("kind") == "unauthorized"
                    status = Exit.REFUSED if is_out else Exit.UNREACHABLE
                    raise CommandError(status, data["error"], hint=data["hint"])
                yield name, data

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> httpx2.Response:
        try:
            with patience(f"waiting for the service{self._so_far}"):
                answer = self._http.request(
                    method,
                    f"v1/{path}",
                    params=dict(params or {}),
                    json=body,
                    headers={"Idempotency-Key": key} if key else {},
                )
        except httpx2.ConnectTimeout as error:
            raise self._unreachable(error, path) from error
        except (
            httpx2.TimeoutException,
            httpx2.ReadError,
            httpx2.RemoteProtocolError,
        ) as error:
            if key:
                raise _AnswerLostError from error
            raise self._unreachable(error, path) from error
        except httpx2.TransportError as error:
            raise self._unreachable(error, path) from error
        if answer.is_success:
            return answer
        raise _error_of(answer, self._url)

    def _unreachable(self, error: Exception, path: str = "") -> CommandError:
        what, how = (
            ("simulator", "simulate")
            if path.startswith("sim/")
            else ("service", "serve")
        )
        hint = f"is it running (`forewarn {how}`), and is FOREWARN_URL right?"
        causes = list(_causes(error))
        if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
            hint = "name the authority's certificate in --ca-file or FOREWARN_CA_FILE"
        elif any(isinstance(each, PermissionError) for each in causes):
            hint = "run it as root or as a member of the service's group"
        return CommandError(
            Exit.UNREACHABLE,
            f"the {what} at {self._url} cannot be reached: {error or 'no answer'}",
            hint=hint,
        )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, the latest first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def part(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")


def _json(answer: httpx2.Response, url: str) -> Any:
    try:
        return answer.json()
    except ValueError as error:
        raise _stranger(url) from error


def _stranger(url: str) -> CommandError:
    return CommandError(
        Exit.UNREACHABLE,
        f"what answers at {url} is not forewarn's operator API",
        hint="check --url or FOREWARN_URL",
    )


def _error_of(answer: httpx2.Response, url: str) -> CommandError:
    """Return what an answer that is no success means."""
    body: Any = None
    with contextlib.suppress(ValueError):
        body = answer.json()
    if not isinstance(body, dict) or "kind" not in body or "error" not in body:
        return _stranger(url)
    told = cast("dict[str, Any]", body)
    status = _STATUS.get(answer.status_code, Exit.REFUSED)
    if told["kind"] == "bad-fleet":
        return CommandError(
            status,
            "the fleet file cannot be used",
            hint=str(told.get("hint", "")),
            lines=[str(each["text"]) for each in told["problems"]],
        )
    hint = str(told.get("hint", ""))
    seconds = answer.headers.get("Retry-After", "")
    if told["kind"] == "too-many" and seconds.isdecimal():
        hint = f"{hint}; try again in {seconds} s"
    lines = [f"{each['name']}: {each['error']}" for each in told.get("refused", ())]
    return CommandError(status, str(told["error"]), hint=hint, lines=lines)
