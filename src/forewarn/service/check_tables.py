"""The tables [check.NAME] of forewarn.toml: their keys, and which belong together."""

from collections.abc import Iterator, Mapping
from typing import Any

from forewarn.agent.wire.urls import parse_url
from forewarn.checks.model import Kind
from forewarn.fleet.validators import is_loopback
from forewarn.instants import SECOND
from forewarn.service.checks import limits
from forewarn.service.options import NAME, Forms
from forewarn.settings.forms import Option

_STATUS_MIN, _STATUS_MAX = 200, 599

CHECK: Mapping[str, Option] = {
    "kind": Option(
        form=Forms.WORD,
        is_needed=True,
        words=tuple(kind.value for kind in Kind),
        text="Kind of the question. `promql`: the result of a query of Prometheus. `http`: "
        "the status of a web page. `command`: the exit status of a program.",
    ),
    "url": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="`promql`: the URL of Prometheus, to which `/api/v1/query` is added. `http`: "
        "the URL of the page.",
    ),
    "query": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="`promql`: the query, which returns a scalar or a vector. Compare its result "
        "with `below` and `above`, not in the query: an empty result is unknown.",
    ),
    "below": Option(
        form=Forms.NUMBER,
        least=float("-inf"),
        text="`promql`: the check passes if every value is below this number.",
    ),
    "above": Option(
        form=Forms.NUMBER,
        least=float("-inf"),
        text="`promql`: the check passes if every value is above this number.",
    ),
    "status": Option(
        form=Forms.COUNT,
        least=_STATUS_MIN,
        most=_STATUS_MAX,
        text="`http`: the HTTP status that passes. Redirects are not followed.",
    ),
    "contains": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="`http`: a text that the page must contain. Empty: any page.",
    ),
    "program": Option(
        form=Forms.ARGUMENTS,
        may_be_empty=True,
        text="`command`: the program and its arguments, as a list. Exit status 0 passes, 1 "
        "fails, and any other is unknown. The last line of its output is the reason.",
    ),
    "authorization_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the value of the header Authorization, such as `Basic …`. A single "
        "word is a bearer token. It is read again for each question.",
    ),
    "headers": Option(
        form=Forms.HEADERS,
        may_be_empty=True,
        text="Further headers, which are not secret: a table such as "
        '`{ X-Scope-OrgID = "ops" }`.',
    ),
    "ca_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the certificate authorities to verify the server's certificate. "
        "Empty: the authorities of the system.",
    ),
    "insecure": Option(
        form=Forms.SWITCH,
        text="Whether the secret of `authorization_file` may be sent over http to another "
        "machine.",
    ),
    "every": Option(
        form=Forms.DURATION,
        least=limits.EVERY_MIN,
        most=limits.EVERY_MAX,
        text="Time between two questions while the check is needed. A result that is older "
        "than two such periods and `timeout` is unknown. `timing.speed` does not divide it.",
    ),
    "fails": Option(
        form=Forms.COUNT,
        least=1,
        most=limits.FAILS_MAX,
        text="How many times in a row the check must fail to halt campaigns. Before that, it "
        "is unknown: nothing new begins.",
    ),
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=limits.TIMEOUT_MAX,
        text="Maximum time of a question. After it, the outcome is unknown, and a program "
        "is killed.",
    ),
}
"""The keys of a check, in the order of the file."""

_OF_ALL = frozenset({"kind", "every", "fails", "timeout"})
_OF_SERVERS = frozenset({"url", "authorization_file", "headers", "ca_file", "insecure"})
_KEYS: Mapping[str, frozenset[str]] = {
    Kind.PROMQL.value: _OF_ALL | _OF_SERVERS | {"query", "below", "above"},
    Kind.HTTP.value: _OF_ALL | _OF_SERVERS | {"status", "contains"},
    Kind.COMMAND.value: _OF_ALL | {"program"},
}
"""The keys that a check of each kind can have."""

_NEEDED = {Kind.PROMQL.value: ("url", "query"), Kind.HTTP.value: ("url",)}


def wrong_checks(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the full name and the problem of each key that conflicts with another one.

    `tables` has the valid keys of each table.
    """
    for name, table in tables.items():
        where = f"check.{name}"
        if not NAME.fullmatch(name):
            yield (
                where,
                (
                    "must have a name of up to 63 of a-z, 0-9, - and _, which begins with a "
                    "letter or digit"
                ),
            )
        kind = table.get("kind")
        if kind is None:
            continue
        for key in table.keys() - _KEYS[kind]:
            yield f"{where}.{key}", f"does not belong to a check of kind {kind}"
        for key in _NEEDED.get(kind, ("program",)):
            if not table.get(key):
                yield where, f"needs {key}, because its kind is {kind}"
        if kind == Kind.PROMQL.value and not table.keys() & {"below", "above"}:
            yield where, "needs below or above, to judge the result of its query"
        yield from _wrong_url(where, table)


def _wrong_url(where: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not table.get("url"):
        return
    try:
        url = parse_url(table["url"])
    except ValueError as error:
        yield f"{where}.url", str(error)
        return
    if table.get("kind") == Kind.PROMQL.value and "?" in url.target:
        yield f"{where}.url", "must have no query, because /api/v1/query is added to it"
    has_secret = table.get("authorization_file") and not table.get("insecure")
    if has_secret and not (url.is_secure or is_loopback(url.host)):
        yield (
            f"{where}.url",
            (
                "must be https, since http would show the secret of authorization_file "
                "(insecure = true allows it)"
            ),
        )
