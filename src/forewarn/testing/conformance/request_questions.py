"""Questions of section 1: address, versions and headers. None approves an event.

These questions judge statuses, and bodies only to distinguish two refusals. A rule of
1.8 judges whether each refusal is JSON with a message.
"""

from collections.abc import Iterator
from http import HTTPStatus
from itertools import product
from typing import cast

from forewarn.protocol.versions import NEWEST, NEWEST_NAMES, VERSIONS
from forewarn.testing.client import (
    EVENTS_PATH,
    INSTANCE_PATH,
    METADATA,
    Headers,
    Sent,
)
from forewarn.testing.conformance.check import Question, Witness, has_status, judged
from forewarn.testing.conformance.documents import (
    Exchange,
    Members,
    brief,
    decode,
    target,
    texts,
)
from forewarn.testing.conformance.inquiry import (
    INSTANCE_TARGET,
    INSTANCE_VERSION,
    TRIES,
    Inquiry,
    UntriedError,
)

HEADER_MISSING = b'{ "error": "Bad request: . Required metadata header not specified" }'

MALFORMED = b"{"

VERBS = ("PUT", "DELETE", "PATCH", "OPTIONS", "HEAD")

OTHER_VERSIONS = (
    "",
    "?",
    "?api-version",
    "?api-version=",
    "?api-version=latest",
    "?api-version={latest}",
    "?api-version=2020-07-15",
    "?api-version=2020-7-1",
    "?api-version=2020-07-01-preview",
    "?api-version=2016-12-01",
    f"?api-version={INSTANCE_VERSION}",
    "?version=2020-07-01",
    f"?api-version={NEWEST.name}&api-version={NEWEST.name}",
    f"?api-version={VERSIONS[-2].name}&api-version={NEWEST.name}",
)

LEAVES = ("name", "vmId", "location", "resourceGroupName", "subscriptionId")
"""Members of `compute` that are strings. Each one has a separate path."""

FORWARDED = ("X-Forwarded-For", "192.0.2.1")


def _gets(inquiry: Inquiry, status: int, request: str, sent: Sent) -> Witness:
    """Send a request and return a witness of its status."""
    exchange = inquiry.ask(
        sent.method, sent.target, headers=sent.headers, body=sent.body
    )
    return has_status(exchange, status, request)


def _address(inquiry: Inquiry) -> Iterator[Witness]:
    exchange = inquiry.post(MALFORMED)
    # The body is wrong, not the path or the method.
    status = 400 if exchange.status in {404, 405, 501} else exchange.status
    yield has_status(exchange, status, "a POST with a malformed body")


def _paths(inquiry: Inquiry) -> Iterator[Witness]:
    for path in ("/metadata/scheduledEvents", "/METADATA/SCHEDULEDEVENTS"):
        yield _gets(
            inquiry,
            200,
            f"GET {path}",
            Sent(target=f"{path}?api-version={NEWEST.name}"),
        )


def _unknown_paths(inquiry: Inquiry) -> Iterator[Witness]:
    for path in ("/", "/metadata", "/metadata/nothing", f"{EVENTS_PATH}/x"):
        yield _gets(
            inquiry,
            404,
            f"GET {path}",
            Sent(target=f"{path}?api-version={NEWEST.name}"),
        )


def _verbs(inquiry: Inquiry) -> Iterator[Witness]:
    for verb in VERBS:
        yield _gets(inquiry, 405, verb, Sent(method=verb, target=target()))


def _other_versions(inquiry: Inquiry) -> Iterator[Witness]:
    for query in OTHER_VERSIONS:
        for method in ("GET", "POST"):
            yield _gets(
                inquiry,
                400,
                f"{method} with the query {query!r}",
                Sent(method=method, target=EVENTS_PATH + query),
            )


def _other_parameters(inquiry: Inquiry) -> Iterator[Witness]:
    for query in (
        f"format=json&api-version={NEWEST.name}",
        f"api-version={NEWEST.name}&x=1&x=2&y",
    ):
        yield _gets(
            inquiry,
            200,
            f"GET with the query {query!r}",
            Sent(target=f"{EVENTS_PATH}?{query}"),
        )


def _header_wanted(inquiry: Inquiry) -> Iterator[Witness]:
    bad: tuple[Headers, ...] = (
        (),
        *((("Metadata", value),) for value in ("false", "", "1", "yes")),
        (*METADATA, *METADATA),
    )
    for headers, version, method in product(bad, VERSIONS[1:], ("GET", "POST")):
        sent = Sent(method=method, target=target(version.name), headers=headers)
        request = f"{method} at {version.name} with the headers {headers}"
        yield _gets(inquiry, 400, request, sent)


def _header_in_any_case(inquiry: Inquiry) -> Iterator[Witness]:
    for value in ("true", "True", "TRUE"):
        for name in ("Metadata", "metadata", "METADATA"):
            yield _gets(
                inquiry,
                200,
                f"GET with {name}: {value}",
                Sent(target=target(), headers=((name, value),)),
            )


def _preview_without_header(inquiry: Inquiry) -> Iterator[Witness]:
    where = target(VERSIONS[0].name)
    yield _gets(
        inquiry, 200, f"GET at {VERSIONS[0].name}", Sent(target=where, headers=())
    )
    exchange = inquiry.ask("POST", where, headers=(), body=MALFORMED)
    request = f"a malformed POST at {VERSIONS[0].name}"
    yield has_status(exchange, 400, request)
    yield from is_first(
        exchange,
        inquiry.post(MALFORMED),
        inquiry.ask("POST", target(), headers=(), body=MALFORMED),
        f"{request} is refused because of its body",
    )


def is_first(
    both: Exchange, one: Exchange, other: Exchange, statement: str
) -> Iterator[Witness]:
    """Judge which of two errors in a request the answer is about.

    `both` is the answer to a request with both errors; `one` and `other` are answers to
    requests with one error each. If those two are equal, or `both` differs from both,
    there is no result.
    """
    if one.payload == other.payload:
        return
    if both.payload in {one.payload, other.payload}:
        yield judged(
            statement,
            *(both, one, other),
            is_right=both.payload == one.payload,
            wrong=f"expected that {statement}, got {both.outcome}",
        )


def _order_of_checks(inquiry: Inquiry) -> Iterator[Witness]:
    cases = (
        ("the header before the path", "GET", "/", (), 400),
        ("the header before the verb", "PUT", target(), (), 400),
        ("the path before the verb", "PUT", "/metadata/nothing", METADATA, 404),
        ("the path before the version", "GET", "/metadata/nothing", METADATA, 404),
        ("the verb before the version", "PUT", EVENTS_PATH, METADATA, 405),
        ("forwarding before the path", "GET", "/x", (*METADATA, FORWARDED), 400),
        ("forwarding before the verb", "PUT", target(), (*METADATA, FORWARDED), 400),
    )
    for request, method, where, headers, status in cases:
        yield _gets(
            inquiry, status, request, Sent(method=method, target=where, headers=headers)
        )
    bare = inquiry.ask("GET", target(), headers=())
    yield from is_first(
        inquiry.ask("GET", target(), headers=(FORWARDED,)),
        inquiry.ask("GET", target(), headers=(*METADATA, FORWARDED)),
        bare,
        "forwarding is refused before a missing header",
    )
    unversioned = inquiry.ask("GET", EVENTS_PATH)
    yield from is_first(
        inquiry.ask("GET", EVENTS_PATH, headers=()),
        bare,
        unversioned,
        "a missing header is refused before a missing version",
    )
    yield from is_first(
        inquiry.ask("POST", EVENTS_PATH, body=MALFORMED),
        unversioned,
        inquiry.post(MALFORMED),
        "a missing version is refused before a malformed body",
    )


def _forwarded(inquiry: Inquiry) -> Iterator[Witness]:
    requests = (("GET", None), ("POST", MALFORMED))
    for value, version, (method, body) in product(
        ("192.0.2.1", ""), (VERSIONS[0], NEWEST), requests
    ):
        sent = Sent(
            method=method,
            target=target(version.name),
            headers=(*METADATA, ("x-forwarded-for", value)),
            body=body,
        )
        request = f"{method} at {version.name}, X-Forwarded-For {value!r}"
        yield _gets(inquiry, 400, request, sent)


def _header_sentence(inquiry: Inquiry) -> Iterator[Witness]:
    exchange = inquiry.ask("GET", target(), headers=())
    yield judged(
        HEADER_MISSING.decode(),
        exchange,
        is_right=exchange.payload == HEADER_MISSING,
        wrong=f"without the header: expected {HEADER_MISSING!r}, got "
        f"{exchange.outcome}",
    )


def _version_sentence(inquiry: Inquiry) -> Iterator[Witness]:
    newest = list(NEWEST_NAMES)
    for query in ("", "?api-version=latest"):
        exchange = inquiry.ask("GET", EVENTS_PATH + query)
        request = f"GET with the query {query!r}"
        members = _members(exchange)
        sentence = str(members.get("error"))
        complaint = ""
        if "api-version" not in sentence or "invalid" not in sentence:
            complaint = f"{request}: the error does not say so: {exchange.outcome}"
        elif members.get("newest-versions") != newest:
            complaint = (
                f"{request}: expected newest-versions {newest}, got {exchange.outcome}"
            )
        yield Witness(saw=request, exchanges=(exchange,), complaint=complaint)


def _members(exchange: Exchange) -> Members:
    try:
        return decode(exchange.payload)
    except ValueError:
        return {}


def _tagged(tag: str) -> Headers:
    return (*METADATA, ("If-None-Match", tag))


def _equal_tags(inquiry: Inquiry) -> Iterator[Witness]:
    for form in ('"{}"', "{}", '"x", "{}"'):
        for _ in range(TRIES):
            before = inquiry.read()
            tag = form.format(before.incarnation)
            exchange = inquiry.ask("GET", target(), headers=_tagged(tag))
            if inquiry.read() is before:
                break
        else:
            raise UntriedError("a document that does not change between two reads")
        request = f"If-None-Match: {tag}"
        yield has_status(exchange, 304, request)
        yield judged(
            f"{request}: no body",
            exchange,
            is_right=not exchange.payload,
            wrong=f"a 304 has the body {exchange.outcome}",
        )


def _other_tags(inquiry: Inquiry) -> Iterator[Witness]:
    for tag in ("0", '"0"', "*", '"x"', ""):
        sent = Sent(target=target(), headers=_tagged(tag))
        yield _gets(inquiry, 200, f"If-None-Match: {tag!r}", sent)
    tag = inquiry.read().exchange.header("ETag")
    if tag is not None:
        sent = Sent(
            method="POST", target=target(), headers=_tagged(tag), body=MALFORMED
        )
        yield _gets(inquiry, 400, "a malformed POST with If-None-Match", sent)


def _compute(exchange: Exchange) -> Members:
    compute: object = _members(exchange).get("compute")
    return cast("Members", compute) if isinstance(compute, dict) else {}


def _own_name(inquiry: Inquiry) -> Iterator[Witness]:
    whole = inquiry.ask("GET", INSTANCE_TARGET)
    yield has_status(whole, 200, f"GET {INSTANCE_TARGET}")
    name: object = _compute(whole).get("name")
    yield judged(
        f"compute.name {brief(name)}",
        whole,
        is_right=isinstance(name, str) and bool(name),
        wrong=f"compute.name is {brief(name)} in {whole.outcome}",
    )


def _own_leaves(inquiry: Inquiry) -> Iterator[Witness]:
    whole = inquiry.ask("GET", INSTANCE_TARGET)
    compute = _compute(whole)
    for leaf in LEAVES:
        value: object = compute.get(leaf)
        if isinstance(value, str) and value:
            query = f"?api-version={INSTANCE_VERSION}&format=text"
            exchange = inquiry.ask("GET", f"{INSTANCE_PATH}/compute/{leaf}{query}")
            wanted = (HTTPStatus.OK, value.encode("utf-8", "surrogatepass"))
            yield judged(
                f"compute/{leaf}: {brief(value)}",
                *(whole, exchange),
                is_right=(exchange.status, exchange.payload) == wanted,
                wrong=f"compute.{leaf} is {brief(value)}, but as text "
                f"{exchange.outcome}",
            )


def _instance_versions(inquiry: Inquiry) -> Iterator[Witness]:
    exchange = inquiry.ask("GET", "/metadata/versions")
    request = "GET /metadata/versions"
    yield has_status(exchange, 200, request)
    listed = texts(_members(exchange).get("apiVersions")) or ()
    yield judged(
        f"apiVersions with {INSTANCE_VERSION}",
        exchange,
        is_right=INSTANCE_VERSION in listed,
        wrong=f"{request}: expected a list apiVersions with {INSTANCE_VERSION}, got "
        f"{exchange.outcome}",
    )
    exchange = inquiry.ask("GET", INSTANCE_PATH)
    request = f"GET {INSTANCE_PATH} without a version"
    yield has_status(exchange, 400, request)
    newest = texts(_members(exchange).get("newest-versions"))
    yield judged(
        f"{request}: {brief(newest)}",
        exchange,
        is_right=newest is not None and newest != list(NEWEST_NAMES),
        wrong=f"{request}: newest-versions {brief(newest)} are not those of the instance",
    )


def _continues(inquiry: Inquiry) -> Iterator[Witness]:
    exchange = inquiry.ask_first(target(), MALFORMED)
    yield judged(
        "Expect: 100-continue got 100",
        exchange,
        is_right=exchange.goes_on,
        wrong=f"no 100, but {exchange.outcome}",
    )
    yield has_status(exchange, 400, "a malformed body after the 100")


QUESTIONS = (
    Question("1.1", "the address answers a POST", _address),
    Question("1.2", "paths have no case", _paths),
    Question("1.2", "unknown paths are 404", _unknown_paths),
    Question("1.2", "other verbs are 405", _verbs),
    Question("1.3", "unknown versions are refused", _other_versions),
    Question("1.3", "other parameters are ignored", _other_parameters),
    Question("1.6", "the header is required", _header_wanted),
    Question("1.6", "the header has no case", _header_in_any_case),
    Question("1.6", "the preview needs no header", _preview_without_header),
    Question("1.6", "the first error decides", _order_of_checks),
    Question("1.7", "forwarded requests are refused", _forwarded),
    Question("1.8", "a missing header gets a fixed text", _header_sentence),
    Question("1.8", "an unknown version gets the newest three", _version_sentence),
    Question("1.10", "an equal tag gets 304", _equal_tags),
    Question("1.10", "other tags have no effect", _other_tags),
    Question("1.11", "a VM can read its name", _own_name),
    Question(
        "1.11",
        "each value can be read as text",
        _own_leaves,
        needs="an endpoint that reports its VM's name",
    ),
    Question("1.11", "the instance has its own versions", _instance_versions),
    Question("1.12", "Expect: 100-continue gets 100", _continues),
)
