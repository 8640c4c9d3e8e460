"""Checks of section 1: address, versions, headers. None of them approves."""

import re
from http import HTTPStatus
from typing import Any, cast

from forewarn.protocol.versions import NEWEST, NEWEST_NAMES, VERSIONS
from forewarn.testing.client import EVENTS_PATH, INSTANCE_PATH, METADATA, Client
from forewarn.testing.expect import (
    Check,
    NotCheckableError,
    document,
    expect,
    expect_refusal,
    expect_status,
    json_object,
    post,
    read,
    same_moment,
    target,
)

BURST = 150
"""Requests that are sent at once to meet a limit, if there is a usual one."""

HEADER_MISSING = b'{ "error": "Bad request: . Required metadata header not specified" }'

INSTANCE_VERSION = "2021-02-01"

_GOOD_VALUES = ("true", "True", "TRUE")
_MALFORMED = b"{"


def _address(client: Client) -> None:
    read(client)
    # What is wrong with it is the body: neither the path nor the verb.
    expect_refusal(post(client, _MALFORMED), 400, "a POST with a malformed body")


def _paths(client: Client) -> None:
    for path in ("/metadata/scheduledEvents", "/Metadata/ScheduledEvents"):
        answer = client.ask("GET", f"{path}?api-version={NEWEST.name}")
        expect_status(answer, 200, f"GET {path}")
    for path in ("/", "/metadata", "/metadata/nothing", f"{EVENTS_PATH}/x"):
        answer = client.ask("GET", f"{path}?api-version={NEWEST.name}")
        expect_refusal(answer, 404, f"GET {path}")


def _verbs(client: Client) -> None:
    for verb in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        expect_refusal(client.ask(verb, target()), 405, verb)


def _every_version(client: Client) -> None:
    for version in VERSIONS:
        read(client, version.name)


def _other_versions(client: Client) -> None:
    for query in (
        "",
        "?",
        "?api-version",
        "?api-version=",
        "?api-version=latest",
        "?api-version={latest}",
        "?api-version=2020-07-15",
        "?api-version=2020-7-1",
        "?version=2020-07-01",
        f"?api-version={NEWEST.name}&api-version={NEWEST.name}",
    ):
        for method in ("GET", "POST"):
            answer = client.ask(method, EVENTS_PATH + query)
            expect_refusal(answer, 400, f"{method} with the query {query!r}")


def _other_parameters(client: Client) -> None:
    for query in (
        f"format=json&api-version={NEWEST.name}",
        f"api-version={NEWEST.name}&x=1&x=2&y",
    ):
        answer = client.ask("GET", f"{EVENTS_PATH}?{query}")
        expect_status(answer, 200, f"GET with the query {query!r}")


def _members_by_version(client: Client) -> None:
    shown = same_moment(client, (version.name for version in VERSIONS))
    if not shown[NEWEST.name]:
        raise NotCheckableError("the document has no events now")
    names = {event["EventId"]: event["Resources"] for event in shown[NEWEST.name]}
    for version in VERSIONS:
        extra = {
            "Description": version.description,
            "EventSource": version.source,
            "DurationInSeconds": version.duration,
        }
        prefix = "_" if version.underscore else ""
        for event in shown[version.name]:
            for member, wanted in extra.items():
                expect(
                    (member in event) is wanted,
                    f"{member} at {version.name}: expected {wanted}, in {event}",
                )
            wanted_names = [prefix + name for name in names[event["EventId"]]]
            expect(
                event["Resources"] == wanted_names,
                f"Resources at {version.name}: expected {wanted_names}, in {event}",
            )


def _hidden_types(client: Client) -> None:
    shown = same_moment(client, (version.name for version in VERSIONS))
    for version in VERSIONS:
        hidden = {event_type.value for event_type in version.hidden}
        wanted = [
            event["EventId"]
            for event in shown[NEWEST.name]
            if event["EventType"] not in hidden
        ]
        found = [event["EventId"] for event in shown[version.name]]
        expect(
            found == wanted, f"events at {version.name}: expected {wanted}, got {found}"
        )


def _header_wanted(client: Client) -> None:
    name = "Metadata"
    bad = ((), *(((name, value),) for value in ("false", "", "1", "yes")))
    for headers in (*bad, (*METADATA, *METADATA)):
        for version in VERSIONS[1:]:
            for method in ("GET", "POST"):
                answer = client.ask(method, target(version.name), headers=headers)
                what = f"{method} at {version.name} with the headers {headers}"
                expect_refusal(answer, 400, what)


def _header_in_any_case(client: Client) -> None:
    for value in _GOOD_VALUES:
        for name in ("Metadata", "metadata", "METADATA"):
            answer = client.ask("GET", target(), headers=((name, value),))
            expect_status(answer, 200, f"GET with {name}: {value}")


def _preview_without_header(client: Client) -> None:
    read(client, VERSIONS[0].name, headers=())
    answer = client.ask("POST", target(VERSIONS[0].name), headers=(), body=_MALFORMED)
    members = expect_refusal(answer, 400, "a malformed POST of the preview")
    expect(
        "metadata header" not in members["error"],
        f"the preview asks for no header, but the POST got {members}",
    )


def _order_of_checks(client: Client) -> None:
    forwarded = ("X-Forwarded-For", "192.0.2.1")
    cases = (
        ("the header before the path", "GET", "/", (), 400),
        ("the header before the verb", "PUT", target(), (), 400),
        ("the path before the verb", "PUT", "/metadata/nothing", METADATA, 404),
        ("the verb before the version", "PUT", EVENTS_PATH, METADATA, 405),
        ("forwarding before the path", "GET", "/x", (*METADATA, forwarded), 400),
    )
    for what, method, where, headers, status in cases:
        expect_refusal(client.ask(method, where, headers=headers), status, what)
    answer = client.ask("POST", EVENTS_PATH, body=_MALFORMED)
    members = expect_refusal(answer, 400, "the version before the body")
    expect("newest-versions" in members, f"the version before the body: {members}")


def _forwarded(client: Client) -> None:
    for value in ("192.0.2.1", ""):
        for version in (VERSIONS[0], NEWEST):
            headers = (*METADATA, ("x-forwarded-for", value))
            answer = client.ask("GET", target(version.name), headers=headers)
            expect_refusal(answer, 400, f"X-Forwarded-For {value!r} at {version.name}")


def _error_bodies(client: Client) -> None:
    answer = client.ask("GET", target(), headers=())
    expect(
        answer.body == HEADER_MISSING,
        f"without the header: expected {HEADER_MISSING!r}, got {answer.body!r}",
    )
    members = expect_refusal(client.ask("GET", EVENTS_PATH), 400, "no version")
    expect(
        "api-version" in members["error"] and "invalid" in members["error"],
        f"no version: the sentence does not say so: {members}",
    )
    expect(
        members.get("newest-versions") == list(NEWEST_NAMES),
        f"no version: expected newest-versions {list(NEWEST_NAMES)}, got {members}",
    )


def _limit(client: Client) -> None:
    for _ in range(BURST):
        answer = client.ask("GET", target(), patient=False)
        if answer.status == HTTPStatus.OK:
            continue
        expect_refusal(answer, 429, "one request of many")
        wait = answer.header("Retry-After") or ""
        expect(wait.isdecimal(), f"429 with Retry-After {wait!r}: expected seconds")
        return


def _tags(client: Client) -> None:
    first = read(client)
    incarnation = json_object(first, "GET")["DocumentIncarnation"]
    tag = first.header("ETag")
    expect(
        tag is not None and tag.strip('"') == str(incarnation),
        f"expected the incarnation {incarnation} as ETag, got {tag}",
    )
    for wanted in (f'"{incarnation}"', str(incarnation), f'"x", "{incarnation}"'):
        answer = client.ask(
            "GET", target(), headers=(*METADATA, ("If-None-Match", wanted))
        )
        if answer.status == HTTPStatus.OK and answer.header("ETag") != tag:
            raise NotCheckableError("the document changed meanwhile")
        expect_status(answer, 304, f"If-None-Match: {wanted}")
        expect(not answer.body, f"a 304 has the body {answer.body!r}")


def _tags_that_do_not_match(client: Client) -> None:
    for tag in ("0", '"0"', "*", '"x"', ""):
        headers = (*METADATA, ("If-None-Match", tag))
        answer = client.ask("GET", target(), headers=headers)
        expect_status(answer, 200, f"If-None-Match: {tag!r}")
    tag = read(client).header("ETag") or ""
    headers = (*METADATA, ("If-None-Match", tag))
    answer = client.ask("POST", target(), headers=headers, body=_MALFORMED)
    expect_refusal(answer, 400, "a malformed POST with If-None-Match")


def _own_name(client: Client) -> None:
    version = f"?api-version={INSTANCE_VERSION}"
    whole = json_object(
        expect_status(client.ask("GET", INSTANCE_PATH + version), 200, "the instance"),
        "the instance",
    )
    compute = whole.get("compute")
    if not isinstance(compute, dict):
        raise NotCheckableError("this endpoint does not tell a VM about itself")
    leaf = f"{INSTANCE_PATH}/compute/name{version}&format=text"
    answer = expect_status(client.ask("GET", leaf), 200, "compute/name as text")
    name = cast("dict[str, Any]", compute).get("name")
    expect(
        answer.body == str(name).encode(),
        f"compute.name is {name!r}, and as text {answer.body!r}",
    )


def _instance_versions(client: Client) -> None:
    answer = client.ask("GET", "/metadata/versions")
    found = json_object(
        expect_status(answer, 200, "/metadata/versions"), "/metadata/versions"
    ).get("apiVersions")
    expect(
        isinstance(found, list) and INSTANCE_VERSION in found,
        f"expected a list apiVersions, got {found!r}",
    )
    members = expect_refusal(
        client.ask("GET", INSTANCE_PATH), 400, "no instance version"
    )
    newest = members.get("newest-versions")
    expect(
        isinstance(newest, list) and newest != list(NEWEST_NAMES),
        f"the instance endpoint has versions of its own, not {newest}",
    )


def _content_type(client: Client) -> None:
    for answer in (read(client), client.ask("GET", EVENTS_PATH)):
        found = re.sub(r"\s", "", answer.header("Content-Type") or "").lower()
        expect(
            found == "application/json;charset=utf-8",
            f"expected application/json; charset=utf-8, got {found!r}",
        )


def _any_content_type(client: Client) -> None:
    for value in ("application/x-www-form-urlencoded", "text/plain", "x"):
        headers = (*METADATA, ("Content-Type", value))
        answer = client.ask("POST", target(), headers=headers, body=_MALFORMED)
        expect_refusal(answer, 400, f"a malformed POST as {value}")


def _continues(client: Client) -> None:
    goes_on, answer = client.ask_first(target(), _MALFORMED)
    expect(goes_on, f"Expect: 100-continue got no 100, but {answer.status}")
    expect_refusal(answer, 400, "a malformed body after the 100")
    document(client)


CHECKS = (
    Check(clause="1.1", title="the address answers GET and POST", run=_address),
    Check(clause="1.2", title="paths have no case, others are 404", run=_paths),
    Check(clause="1.2", title="other verbs are 405", run=_verbs),
    Check(clause="1.3", title="every version is served", run=_every_version),
    Check(clause="1.3", title="anything else is no version", run=_other_versions),
    Check(clause="1.3", title="other parameters are ignored", run=_other_parameters),
    Check(clause="1.4", title="a version shows its members", run=_members_by_version),
    Check(clause="1.5", title="a version hides younger types", run=_hidden_types),
    Check(clause="1.6", title="the header is required", run=_header_wanted),
    Check(clause="1.6", title="the header has no case", run=_header_in_any_case),
    Check(clause="1.6", title="the preview needs none", run=_preview_without_header),
    Check(clause="1.6", title="the first fault decides", run=_order_of_checks),
    Check(clause="1.7", title="forwarded requests are refused", run=_forwarded),
    Check(clause="1.8", title="errors say what clients look for", run=_error_bodies),
    Check(clause="1.9", title="a burst meets 429, or no limit", run=_limit),
    Check(clause="1.10", title="an equal tag gets 304", run=_tags),
    Check(clause="1.10", title="other tags mean nothing", run=_tags_that_do_not_match),
    Check(clause="1.11", title="a VM learns its own name", run=_own_name),
    Check(clause="1.11", title="the instance has own versions", run=_instance_versions),
    Check(clause="1.12", title="answers are JSON in UTF-8", run=_content_type),
    Check(clause="1.12", title="a POST may be of any type", run=_any_content_type),
    Check(clause="1.12", title="a client may ask before its body", run=_continues),
)
