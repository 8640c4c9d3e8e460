"""The client of the operator API: requests, lists, streams, and the meaning of errors."""

import contextlib
import json
import re
import ssl
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any, Self, TypeAlias
from urllib.parse import quote

import httpx2

from forewarn.cli.api_errors import error_of, json_of
from forewarn.cli.command_table import Call, Command, CommandError, Exit
from forewarn.cli.places import (
    DEFAULT_URL,
    Doors,
    is_here,
    leader_in,
    token_of_file,
)
from forewarn.cli.progress import bar
from forewarn.cli.stopping import patience

Json: TypeAlias = Mapping[str, Any]
"""An object in a response."""

_NUMBER = re.compile(r"^\[Errno -?\d+\] ")
"""The number that Python puts before the text of a failed system call."""

CONNECT_SECONDS = 5.0
"""Timeout to connect, in seconds: a running service accepts much sooner."""

ANSWER_SECONDS = 120.0
"""Timeout of a response, in seconds: a large fleet file is planned in less."""

PROGRESS_SECONDS = 2.0
"""Timeout of the question how far a request has come; without an answer, only the time is
shown."""

SILENCE_SECONDS = 60.0
"""Timeout of a stream without a message, in seconds: comments come every 5 s."""

KEY_VARIABLE = "FOREWARN_IDEMPOTENCY_KEY"
"""Names the requests of a command, so that a script can repeat the command."""

KEY_CHARACTERS_MAX = 200
"""Maximum characters of a key: the API accepts 255, and a number is added."""

PAGE = "1000"
"""Objects of one page: the maximum of the API."""


class _AnswerLostError(Exception):
    """A request was sent, and no response arrived."""


class Client:
    """The client of the operator API."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        order_key: str = "",
        ca_file: str = "",
        command: Command | None = None,
    ) -> None:
        """Use the API at `url`, or at the first of several that serves.

        Raises CommandError for an invalid URL.

        `order_key` names the requests of this command; empty: a new name. `ca_file` has
        the trusted authorities; empty: those of the system. Errors name the options of
        `command`.
        """
        self._command = command
        if not token.isascii() or not token.isprintable():
            raise CommandError(
                Exit.USAGE, "the token has characters that are not valid in a token"
            )
        if not order_key.isascii() or len(order_key) > KEY_CHARACTERS_MAX:
            raise CommandError(
                Exit.USAGE,
                f"{KEY_VARIABLE} must be at most {KEY_CHARACTERS_MAX} ASCII characters",
            )
        self._order_key = order_key or str(uuid.uuid4())
        self._orders = 0
        self._so_far = ""
        """Text for the status line: the number of objects so far."""
        self._position = ""
        """The ID of the last message of the stream."""
        self._doors = Doors(
            url,
            token,
            ca_file=ca_file,
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        )

    @property
    def url(self) -> str:
        """Return the URL of the replica that is used now."""
        return self._doors.url

    @classmethod
    def of(cls, call: Call) -> Self:
        """Return a client with the options and environment of the command.

        It is closed when the command ends.
        """
        url = call.text("url") or call.environ.get("FOREWARN_URL") or DEFAULT_URL
        token = call.text("token") or call.environ.get("FOREWARN_TOKEN", "")
        if not token:
            named = call.environ.get("FOREWARN_TOKEN_FILE", "")
            token = token_of_file(named, is_here=is_here(url))
        ca_file = call.text("ca_file") or call.environ.get("FOREWARN_CA_FILE", "")
        order_key = call.environ.get(KEY_VARIABLE, "")
        client = cls(
            url,
            token.strip(),
            order_key=order_key.strip(),
            ca_file=ca_file,
            command=call.command,
        )
        return call.exits.enter_context(contextlib.closing(client))

    def close(self) -> None:
        """Close its connections."""
        self._doors.close()

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return the JSON at a path of the API."""
        return json_of(self._ask("GET", path, params=params), self.url)

    def text(self, path: str) -> str:
        """Return the text at a path of the API."""
        return self._ask("GET", path).text

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        seconds: float = ANSWER_SECONDS,
        doing: str = "",
        is_question: bool = False,
        progress: str = "",
    ) -> Any:
        """Send a request; return its result, which takes at most `seconds`.

        `is_question`: it changes nothing, such as a plan. `progress` is the path below
        which the service says how far a request has come, by its key.

        `doing` says on a terminal what the service does meanwhile; empty: only that it
        has not answered yet.

        If no response arrives, the request is sent once more with the same key, so that
        it is executed once.
        """
        key = self._next_key()

        def ask() -> httpx2.Response:
            return self._ask(
                "POST",
                path,
                body=body,
                key=key,
                seconds=seconds,
                doing=doing,
                more=partial(self._progress, f"{progress}/{quote(key, safe='')}")
                if progress
                else str,
            )

        try:
            answer = ask()
        except _AnswerLostError:
            self._doors.turn()
            try:
                answer = ask()
            except (CommandError, _AnswerLostError) as error:
                raise self._lost(is_question=is_question) from error
        return json_of(answer, self.url)

    def _next_key(self) -> str:
        """Return the key of the command's next request, the same in each attempt."""
        self._orders += 1
        number = "" if self._orders == 1 else f".{self._orders}"
        return f"{self._order_key}{number}"

    def _lost(self, *, is_question: bool) -> CommandError:
        if is_question:
            return CommandError(
                Exit.UNREACHABLE,
                f"no response from {self.url} after the request was sent; it changes "
                "nothing",
                hint="Check the load of the service, then run the command again.",
            )
        return CommandError(
            Exit.UNREACHABLE,
            f"no response from {self.url} after the request was sent; it may have taken "
            "effect",
            hint=f"Repeat the command with {KEY_VARIABLE}={self._order_key} set: "
            "within 24 hours the request is executed once.",
        )

    def delete(self, path: str) -> Any:
        """Delete the object at a path; return the response."""
        return json_of(self._ask("DELETE", path), self.url)

    def every(
        self, path: str, key: str, params: Mapping[str, str]
    ) -> Generator[dict[str, Any]]:
        """Yield the objects of all pages of a list."""
        query = {"limit": PAGE, **params}
        number = 0
        while True:
            page = self.get(path, query)
            yield from page[key]
            if page["next"] is None:
                return
            query["after"] = page["next"]
            number += len(page[key])
            self._so_far = f", {number:,} {key} so far"

    def whole(self, path: str, params: Mapping[str, str], *keys: str) -> dict[str, Any]:
        """Return the first page of lists with the objects of all pages in it."""
        whole = page = self.get(path, params)
        while page["next"] is not None:
            page = self.get(path, {**params, "after": page["next"]})
            for key in keys:
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
            with self._doors.http.stream(
                "GET", "v1/watch", params=params, headers=headers, timeout=timeout
            ) as answer:
                if answer.is_error:
                    answer.read()
                    raise error_of(answer, self.url, self._command)
                yield from self._messages(answer.iter_lines())
        except httpx2.TransportError as error:
            lost = self._unreachable(error)
            self._doors.turn()
            raise lost from error
        raise CommandError(
            Exit.UNREACHABLE,
            f"the service at {self.url} has ended the stream",
            hint="The service was probably stopped. Watch again when it runs.",
        )

    def _messages(self, lines: Iterator[str]) -> Generator[tuple[str, Any]]:
        """Yield the messages in the lines of server-sent events."""
        name = position = ""
        for line in lines:
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                position = value
            elif not line:
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
        seconds: float = ANSWER_SECONDS,
        doing: str = "",
        more: Callable[[], str] = str,
    ) -> httpx2.Response:
        def send() -> httpx2.Response:
            return self._doors.http.request(
                method,
                f"v1/{path}",
                params=dict(params or {}),
                json=body,
                headers={"Idempotency-Key": key} if key else {},
                timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            )

        with patience(doing or f"waiting for the service{self._so_far}", more):
            answer = self._find_leader(send, path, may_repeat=bool(key))
        if answer.is_success:
            return answer
        raise error_of(answer, self.url, self._command)

    def _find_leader(
        self, send: Callable[[], httpx2.Response], path: str, *, may_repeat: bool
    ) -> httpx2.Response:
        """Return the first answer of a replica that serves the request, or the last."""
        for left in reversed(range(len(self._doors))):
            try:
                answer = send()
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if not left:
                    raise self._unreachable(error, path) from error
                self._doors.turn()
                continue
            except httpx2.TransportError as error:
                if may_repeat and _is_lost(error):
                    raise _AnswerLostError from error
                raise self._unreachable(error, path) from error
            leader = leader_in(answer)
            if leader is None or not left:
                return answer
            self._doors.turn(leader)
        raise AssertionError("there is at least one URL")

    def _progress(self, path: str) -> str:
        """Return how far a request has come, to show it; empty: it is unknown."""
        try:
            answer = self._doors.http.get(f"v1/{path}", timeout=PROGRESS_SECONDS)
            return bar(json_of(answer, self.url)) if answer.is_success else ""
        except (httpx2.TransportError, CommandError):
            # The answer to the request itself says what is wrong.
            return ""

    def _unreachable(self, error: Exception, path: str = "") -> CommandError:
        server, how = (
            ("simulator", "simulate")
            if path.startswith("sim/")
            else ("service", "serve")
        )
        hint = (
            f"Check that it runs (`forewarn {how}`) and that FOREWARN_URL is correct."
        )
        causes = list(_causes(error))
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
            hint = "Name the certificate of the authority in --ca-file or FOREWARN_CA_FILE."
        elif any(isinstance(cause, PermissionError) for cause in causes):
            hint = "Run the command as root or as a member of the service's group."
        return CommandError(
            Exit.UNREACHABLE,
            f"the {server} at {self.url} cannot be reached: {_without_number(error)}",
            hint=hint,
        )


def _is_lost(error: httpx2.TransportError) -> bool:
    """Return whether the request may have arrived although no response has."""
    return isinstance(
        error,
        httpx2.TimeoutException | httpx2.ReadError | httpx2.RemoteProtocolError,
    )


def _without_number(error: Exception) -> str:
    """Return the text of an error for people, without the number of the system call."""
    return _NUMBER.sub("", str(error)) or "no response"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, the latest first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def part(name: str) -> str:
    """Return a name as a component of a path."""
    return quote(name, safe="")
