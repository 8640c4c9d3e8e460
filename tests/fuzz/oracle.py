"""Requests in their parts, and the answer that the clauses of section 1 promise.

It repeats no code of the endpoint: each rule is written down once more.
"""

from dataclasses import dataclass

EVENTS = "/metadata/scheduledevents"
EVENT_VERSIONS = (
    "2017-03-01",
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    "2020-07-01",
)
INSTANCE_LEAF = "/metadata/instance/compute/name"
INSTANCE_TREE = "/metadata/instance/compute"
INSTANCE_NOTHING = "/metadata/instance/compute/colour"
INSTANCE_VERSIONS = ("2017-08-01", "2018-10-01", "2019-06-01", "2021-02-01")
BAD_VERSIONS = ("", "latest", "{latest}", "2020-07-02", "20200701", "2017-03-01 ")


@dataclass(frozen=True)
class Ask:
    """A well-formed request."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    """Without those that frame the body, and without Host."""
    body: bytes
    is_approval: bool
    """The body is a good approval."""
    chunked: bool
    is_old: bool
    """HTTP/1.0."""

    def values(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for header, value in self.headers if header.lower() == name]

    def asked(self, name: str) -> list[str]:
        """Return every value of a parameter."""
        return [value for key, value in self.query if key == name]


@dataclass(frozen=True)
class Promise:
    """The required response."""

    status: int
    closes: bool


def promise(ask: Ask, *, tag: str, pushes: bool = False) -> Promise:
    """Return the answer to `ask` of a VM whose document has the incarnation `tag`.

    A request that waits is promised its answer too; `pushes`: `wait` has a meaning.
    """
    refusal = _refusal(ask) or (_refused_wait(ask) if pushes else 0)
    expected = [] if ask.is_old else ask.values("expect")
    if expected:
        if [value.lower() for value in expected] != ["100-continue"]:
            return Promise(417, closes=True)
        # Before a 100 a bad head is refused, and the body may never come.
        if refusal:
            return Promise(refusal, closes=True)
    return Promise(refusal or _status(ask, tag=tag), closes=_closes(ask))


def _closes(ask: Ask) -> bool:
    options = {
        option.strip().lower()
        for value in ask.values("connection")
        for option in value.split(",")
    }
    # The bytes after the offer of another protocol may already belong to that protocol.
    return bool(options & {"close", "upgrade"}) or (
        ask.is_old and "keep-alive" not in options
    )


def _path(ask: Ask) -> str:
    path = ask.path.lower()
    return path[:-1] if path.endswith("/") and path != "/" else path


def _refusal(ask: Ask) -> int:
    """Return the status that the head alone deserves, in the order of 1.6."""
    path, versions = _path(ask), ask.asked("api-version")
    version = versions[0] if len(versions) == 1 else ""
    if ask.values("x-forwarded-for"):
        return 400
    values = ask.values("metadata")
    is_free = path == EVENTS and version == "2017-03-01"
    if not is_free and [value.lower() for value in values] != ["true"]:
        return 400
    if path == EVENTS:
        if ask.method not in {"GET", "POST"}:
            return 405
        return 0 if version in EVENT_VERSIONS else 400
    if path == "/metadata/versions":
        return 0 if ask.method == "GET" else 405
    if not path.startswith("/metadata/instance"):
        return 404
    if ask.method != "GET":
        return 405
    if version not in INSTANCE_VERSIONS:
        return 400
    return 0 if ask.asked("format") in ([], ["json"], ["text"]) else 400


def _refused_wait(ask: Ask) -> int:
    waits = ask.asked("wait")
    if not waits or ask.method != "GET" or _path(ask) != EVENTS:
        return 0
    [wait, *others] = waits
    digits = {*wait} <= {*"0123456789"} and 1 <= len(wait) <= 9
    return 0 if digits and not others else 400


def _status(ask: Ask, *, tag: str) -> int:
    path = _path(ask)
    if path == EVENTS and ask.method == "POST":
        return 200 if ask.is_approval else 400
    if path == EVENTS:
        tags = {
            one.strip().removeprefix("W/").strip('"')
            for value in ask.values("if-none-match")
            for one in value.split(",")
        }
        return 304 if tag in tags else 200
    if path == INSTANCE_NOTHING:
        return 404
    if path == INSTANCE_LEAF:
        return 200 if ask.asked("format") == ["text"] else 400
    return 200
