"""Each check of a request, and the order of the checks."""

import itertools

import pytest

from forewarn.fleet import instance
from forewarn.metadata.endpoint import Approve, Describe
from forewarn.metadata.http import Request
from tests.unit.metadata.support import (
    EVENT_ID,
    NEWEST,
    PATH,
    approval,
    ask,
    get,
    make_endpoint,
    post,
    read,
)

HEADER_BODY = b'{ "error": "Bad request: . Required metadata header not specified" }'
VERSION_BODY = (
    b'{"error":"Bad request. api-version is invalid or was not specified in the '
    b'request. For more information refer to aka.ms/azureimds","newest-versions":'
    b'["2020-07-01","2019-08-01","2019-04-01"]}'
)
INSTANCE_VERSION_BODY = VERSION_BODY.replace(
    b'"2020-07-01","2019-08-01","2019-04-01"',
    b'"2025-04-07","2024-07-17","2024-03-15"',
)


@pytest.mark.clause("1.6", "1.8")
@pytest.mark.parametrize(
    "value", ["", "false", "1", "yes", "true, true", "true|true", '"true"', "tru\u0435"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_request_without_the_metadata_header_gets_400(value: str, method: str) -> None:
    answer = read(ask(make_endpoint(), get(method=method, metadata=value)))
    assert (answer.status, answer.body) == (400, HEADER_BODY)
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"


@pytest.mark.clause("1.6")
@pytest.mark.parametrize("value", ["true", "True", "TRUE", "tRuE"])
def test_metadata_header_value_is_case_insensitive(value: str) -> None:
    assert read(ask(make_endpoint(), get(metadata=value))).status == 200


@pytest.mark.clause("1.4", "1.6")
@pytest.mark.parametrize("value", ["", "false", "true|true"])
def test_preview_version_needs_no_metadata_header(value: str) -> None:
    endpoint = make_endpoint()
    assert (
        read(ask(endpoint, get("api-version=2017-03-01", metadata=value))).status == 200
    )
    bare = post(approval(EVENT_ID), "api-version=2017-03-01", metadata=value)
    assert ask(endpoint, bare) == Approve(vm="w0", event_ids=(EVENT_ID,))
    twice = "api-version=2017-03-01&api-version=2017-03-01"
    assert read(ask(endpoint, get(twice, metadata=value))).body == HEADER_BODY
    elsewhere = get("api-version=2017-03-01", path="/metadata/instance", metadata=value)
    assert read(ask(endpoint, elsewhere)).body == HEADER_BODY


@pytest.mark.clause("1.7", "1.8")
@pytest.mark.parametrize("value", ["10.0.0.1", "a|b", " "])
def test_a_forwarded_request_is_refused(value: str) -> None:
    answer = read(ask(make_endpoint(), get(x_forwarded_for=value)))
    assert answer.status == 400
    assert answer.json == {"error": "Bad request. X-Forwarded-For is not accepted"}


@pytest.mark.clause("1.2")
@pytest.mark.parametrize(
    "path",
    [
        PATH,
        "/metadata/scheduledEvents",
        "/METADATA/SCHEDULEDEVENTS",
        "/metadata/%73cheduledevents",
        PATH + "/",
        "http://169.254.169.254" + PATH,
        "HTTP://h:8080/metadata/scheduledEvents",
    ],
)
def test_equivalent_paths_are_accepted(path: str) -> None:
    assert read(ask(make_endpoint(), get(path=path))).status == 200


@pytest.mark.clause("1.2", "1.8")
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "*",
        "h:80",
        "/metadata",
        "/metadata/",
        "/metadata//scheduledevents",
        "//metadata/scheduledevents",
        "/metadata/scheduledevents//",
        "/metadata/scheduledevents/x",
        "/metadata%2fscheduledevents",
        "/metadata/latest/scheduledevents",
        "/metadata/2017-03-01/scheduledevents",
        "/metadata/identity/oauth2/token",
        "metadata/scheduledevents",
        "http://169.254.169.254",
    ],
)
def test_other_paths_are_404(path: str) -> None:
    answer = read(ask(make_endpoint(), get(path=path)))
    assert (answer.status, answer.json) == (404, {"error": "Not found"})


@pytest.mark.clause("1.2", "1.8")
@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_verbs_are_405(method: str) -> None:
    answer = read(ask(make_endpoint(), get(method=method)))
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, POST"
    assert answer.json == {"error": "Method not allowed. Use GET or POST"}


@pytest.mark.clause("1.2", "1.11")
@pytest.mark.parametrize("path", ["/metadata/instance", "/metadata/versions"])
def test_instance_endpoint_allows_only_get(path: str) -> None:
    answer = read(ask(make_endpoint(), get(path=path, method="POST")))
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")


@pytest.mark.clause("1.3", "1.8")
@pytest.mark.parametrize(
    "query",
    [
        "",
        "api-version",
        "api-version=",
        "api-version=latest",
        "api-version={latest}",
        "api-version=2021-02-01",
        "api-version=2019-04-30",
        "api-version=2020-07-01x",
        "Api-Version=2020-07-01",
        "version=2020-07-01",
        f"{NEWEST}&{NEWEST}",
        f"{NEWEST}&api-version=",
        f"{NEWEST}&api%2Dversion=2017-08-01",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_versions_are_400(query: str, method: str) -> None:
    answer = read(ask(make_endpoint(), get(query, method=method)))
    assert (answer.status, answer.body) == (400, VERSION_BODY)


@pytest.mark.clause("1.3")
@pytest.mark.parametrize(
    "query",
    [
        f"format=json&{NEWEST}",
        f"{NEWEST}&format=text&format=json",
        "api%2Dversion=2020%2D07-01",
        f"&&{NEWEST}&x",
    ],
)
def test_other_parameters_and_escapes_are_accepted(query: str) -> None:
    assert read(ask(make_endpoint(), get(query))).status == 200


@pytest.mark.clause("1.3", "1.11")
@pytest.mark.parametrize("query", ["", "api-version=2019-04-01", NEWEST, "format=text"])
def test_instance_endpoint_rejects_other_versions(query: str) -> None:
    answer = read(ask(make_endpoint(), get(query, path="/metadata/instance")))
    assert (answer.status, answer.body) == (400, INSTANCE_VERSION_BODY)


@pytest.mark.clause("1.11")
def test_the_instance_endpoint_checks_the_format() -> None:
    endpoint = make_endpoint()
    for query in ["format=xml", "format=json&format=text", "format="]:
        request = get(f"api-version=2021-02-01&{query}", path="/metadata/instance")
        answer = read(ask(endpoint, request))
        assert answer.json == {"error": "Bad request. format must be json or text"}
    request = get(
        "api-version=2021-02-01&format=Text", path="/Metadata/Instance/Compute/Name"
    )
    question = ask(endpoint, request)
    assert isinstance(question, Describe)
    assert (question.route.path, question.route.text) == (("compute", "name"), True)


@pytest.mark.clause("1.11")
def test_versions_are_listed_without_an_api_version() -> None:
    endpoint = make_endpoint()
    answer = read(ask(endpoint, get("", path="/metadata/versions")))
    assert answer.json == {"apiVersions": list(instance.VERSIONS)}
    refused = ask(endpoint, get("", path="/metadata/versions", metadata=""))
    assert read(refused).body == HEADER_BODY


def faulty(*faults: str) -> Request:
    """Return a request with every fault named."""
    request = get(
        "api-version=1" if "version" in faults else NEWEST,
        path="/x" if "path" in faults else PATH,
        method="PUT" if "verb" in faults else "POST",
        metadata="" if "header" in faults else "true",
        x_forwarded_for="a" if "forwarded" in faults else "",
    )
    return request._replace(body=b"{" if "body" in faults else b"")


@pytest.mark.clause("1.6")
def test_first_error_in_order_is_returned() -> None:
    order = ("forwarded", "header", "path", "verb", "version", "body")
    endpoint = make_endpoint()
    alone = [read(ask(endpoint, faulty(fault))) for fault in order]
    assert [a.status for a in alone] == [400, 400, 404, 405, 400, 400]
    assert len({a.body for a in alone}) == len(order)
    for size in range(2, len(order) + 1):
        for faults in itertools.combinations(range(len(order)), size):
            answer = read(ask(endpoint, faulty(*(order[at] for at in faults))))
            assert answer == alone[faults[0]]


@pytest.mark.clause("1.6")
def test_a_bare_get_of_the_root_is_400() -> None:
    assert read(ask(make_endpoint(), get("", path="/", metadata=""))).status == 400


@pytest.mark.clause("3.3")
def test_invalid_body_gets_400_with_a_message() -> None:
    answer = read(ask(make_endpoint(), post("")))
    assert answer.json == {"error": "Bad request. The body is not valid JSON"}
