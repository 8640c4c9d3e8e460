"""The responses of the endpoint's core, without sockets."""

from dataclasses import replace

import pytest

from forewarn.instants import SECOND
from forewarn.metadata.endpoint import (
    Approve,
    Describe,
    Enable,
    Endpoint,
    Hold,
)
from forewarn.metadata.http import Request, Response
from forewarn.metadata.routes import Read
from forewarn.protocol.events import EventStatus
from forewarn.protocol.published import Publication
from forewarn.protocol.versions import VERSIONS
from tests.unit.metadata.support import (
    ALONE,
    EVENT,
    EVENT_ID,
    FACTS,
    GUESTS,
    NOW,
    WEST_0,
    WEST_1,
    approval,
    ask,
    get,
    make_endpoint,
    post,
    published,
    read,
    snapshot,
)

STARTED = replace(EVENT, status=EventStatus.STARTED)


def incarnation(endpoint: Endpoint) -> int:
    return read(ask(endpoint, get())).json["DocumentIncarnation"]


# -- the document


@pytest.mark.clause("1.10", "1.12", "2.1")
def test_empty_document_has_exact_bytes() -> None:
    assert ask(make_endpoint(), get()).payload == (
        b"HTTP/1.1 200 OK\r\n"
        b"Server: forewarn\r\n"
        b'ETag: "1"\r\n'
        b"Content-Type: application/json; charset=utf-8\r\n"
        b"Content-Length: 37\r\n"
        b"\r\n"
        b'{"DocumentIncarnation":1,"Events":[]}'
    )


@pytest.mark.clause("1.3", "1.4")
@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
def test_every_version_is_served(version: object) -> None:
    endpoint = make_endpoint()
    endpoint.publish(published(snapshot(2, EVENT)))
    name = getattr(version, "name", "")
    event = read(ask(endpoint, get(f"api-version={name}"))).json["Events"][0]
    assert event["Resources"] == ["_WestNO_0" if name == "2017-03-01" else "WestNO_0"]
    assert ("DurationInSeconds" in event) is (name == "2020-07-01")


@pytest.mark.clause("6.1")
def test_vms_of_one_view_share_the_same_response() -> None:
    endpoint = make_endpoint()
    endpoint.publish(published(snapshot(2, EVENT)))
    assert ask(endpoint, get()) is ask(endpoint, get(), WEST_1)


def test_equal_empty_documents_of_views_are_shared() -> None:
    endpoint = make_endpoint()
    endpoint.publish(published(snapshot(view="alone")))
    assert ask(endpoint, get()) is ask(endpoint, get(), ALONE)
    endpoint.publish(published(snapshot(2, view="alone")))
    assert ask(endpoint, get()) is not ask(endpoint, get(), ALONE)


@pytest.mark.clause("4.2")
def test_published_document_is_rendered_for_the_versions_in_use() -> None:
    endpoint = make_endpoint()
    ask(endpoint, get())
    ask(endpoint, get("api-version=2017-08-01"))
    endpoint.publish(published(snapshot(2, EVENT)))
    document = endpoint._views["west"].document
    assert document is not None
    rendered = [bool(answer) for answer in document._answers]
    assert rendered == [False, True, False, False, False, False, True]
    assert ask(endpoint, get()) is document._answers[6]


# -- what is published


@pytest.mark.clause("2.10")
def test_repeated_or_late_messages_never_restore_an_older_document() -> None:
    endpoint = make_endpoint()
    third = snapshot(3, STARTED)
    for message in [snapshot(2, EVENT), third, third, snapshot(2, EVENT), snapshot(1)]:
        endpoint.publish(published(message))
    assert incarnation(endpoint) == 3
    endpoint.publish(published(snapshot(1, epoch=2)))
    assert incarnation(endpoint) == 1
    endpoint.publish(published(snapshot(4)))
    assert incarnation(endpoint) == 1


@pytest.mark.clause("2.10", "7.3")
def test_disabling_ends_the_epoch() -> None:
    endpoint = make_endpoint()
    endpoint.publish(published(snapshot(2, EVENT)))
    endpoint.publish(published(snapshot(1, enabled=False)))
    assert ask(endpoint, get()) == Enable()
    endpoint.publish(published(snapshot(3, EVENT)))
    assert ask(endpoint, get()) == Enable()
    endpoint.publish(published(snapshot(1, epoch=2)))
    assert incarnation(endpoint) == 1


def test_request_for_an_unknown_view_enables_it() -> None:
    endpoint = make_endpoint()
    endpoint.publish(Publication(views_gone=("west", "west")))
    assert ask(endpoint, get()) == Enable()


def test_deleted_vm_is_an_unknown_caller() -> None:
    endpoint = make_endpoint()
    endpoint.publish(Publication(guests_gone=("w0", "w0")))
    assert read(ask(endpoint, get())).status == 404
    assert read(ask(endpoint, get(), WEST_1)).status == 200


# -- enabling


@pytest.mark.clause("7.1")
def test_first_get_enables_the_view() -> None:
    endpoint = make_endpoint()
    assert ask(endpoint, get(), ALONE) == Enable()
    assert endpoint.take_last_seen() == {}
    endpoint.publish(published(snapshot(view="alone")))
    assert read(ask(endpoint, get(), ALONE)).status == 200


@pytest.mark.clause("7.1")
def test_first_answer_is_delayed_until_ready() -> None:
    endpoint = make_endpoint()
    ready_at = NOW + 120 * SECOND
    endpoint.publish(published(snapshot(epoch=2, ready_at=ready_at)))
    request = get()
    assert ask(endpoint, request) == Hold(until=ready_at)
    early = endpoint.handle(request, WEST_0, now=ready_at - 1, monotonic=0.0)
    assert early == Hold(until=ready_at)
    answer = endpoint.handle(request, WEST_0, now=ready_at, monotonic=0.0, again=True)
    assert read(answer).json == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.clause("7.1", "7.3")
def test_only_a_valid_request_updates_the_last_seen_time() -> None:
    endpoint = make_endpoint()
    ask(endpoint, get("api-version=latest"))
    ask(endpoint, get(path="/metadata/versions"))
    ask(endpoint, post(approval(EVENT_ID)))
    endpoint.approved("w0", "no", now=NOW)
    assert endpoint.take_last_seen() == {}
    ask(endpoint, get())
    endpoint.handle(get(if_none_match="1"), WEST_1, now=NOW + 7, monotonic=0.0)
    assert endpoint.take_last_seen() == {"west": NOW + 7}
    assert endpoint.take_last_seen() == {}
    endpoint.approved("w1", None, now=NOW + 9)
    endpoint.approved("gone", None, now=NOW + 9)
    assert endpoint.take_last_seen() == {"west": NOW + 9}


# -- ETag and 304


@pytest.mark.clause("1.10")
@pytest.mark.parametrize(
    "tag", ["1", '"1"', 'W/"1"', '"0", "1"', "0,1", '"x"|"1"', ' W/"7" ,"1"']
)
def test_an_equal_tag_gets_304_without_a_body(tag: str) -> None:
    endpoint = make_endpoint()
    ask(endpoint, get())
    answer = ask(endpoint, get(if_none_match=tag))
    assert answer.payload == (
        b'HTTP/1.1 304 Not Modified\r\nServer: forewarn\r\nETag: "1"\r\n\r\n'
    )


@pytest.mark.clause("1.10")
@pytest.mark.parametrize("tag", ["0", '"0"', "*", '"*"', "11", "W/1", ",", "one"])
def test_any_other_tag_gets_the_full_document(tag: str) -> None:
    endpoint = make_endpoint()
    ask(endpoint, get())
    assert read(ask(endpoint, get(if_none_match=tag))).status == 200


@pytest.mark.clause("1.10")
def test_changed_document_is_sent_in_full() -> None:
    endpoint = make_endpoint()
    ask(endpoint, get())
    endpoint.publish(published(snapshot(2, EVENT)))
    assert read(ask(endpoint, get(if_none_match='"1"'))).status == 200
    assert read(ask(endpoint, get(if_none_match='"2"'))).status == 304


@pytest.mark.clause("1.10", "7.3")
def test_each_vms_first_answer_of_an_epoch_is_in_full() -> None:
    endpoint = make_endpoint()
    tagged = get(if_none_match='"1"')
    statuses = [read(ask(endpoint, tagged, who)).status for who in (WEST_0, WEST_1)]
    assert statuses == [200, 200]
    assert read(ask(endpoint, tagged)).status == 304
    endpoint.publish(published(snapshot(1, epoch=2)))
    assert read(ask(endpoint, tagged, WEST_1)).status == 200
    assert read(ask(endpoint, tagged)).status == 200
    assert read(ask(endpoint, tagged)).status == 304


@pytest.mark.clause("1.10")
def test_vm_that_changes_its_view_gets_a_full_document() -> None:
    endpoint = make_endpoint()
    tagged = get(if_none_match='"1"')
    ask(endpoint, tagged)
    endpoint.publish(
        Publication(
            views=(snapshot(view="alone"),),
            guests=(replace(GUESTS[0], view_id="alone"),),
        )
    )
    assert read(ask(endpoint, tagged)).status == 200
    endpoint.publish(Publication(guests=(replace(GUESTS[0], view_id="alone"),)))
    assert read(ask(endpoint, tagged)).status == 304


@pytest.mark.clause("1.10", "3.1")
def test_a_post_ignores_the_tag() -> None:
    endpoint = make_endpoint()
    ask(endpoint, get())
    question = ask(endpoint, post(approval(EVENT_ID), if_none_match='"1"'))
    assert question == Approve(vm="w0", event_ids=(EVENT_ID,))


# -- approval


@pytest.mark.clause("1.4", "3.1", "3.3")
@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
def test_approval_is_parsed_alike_in_every_version(version: object) -> None:
    query = f"api-version={getattr(version, 'name', '')}"
    question = ask(make_endpoint(), post(approval(EVENT_ID.lower()), query))
    assert question == Approve(vm="w0", event_ids=(EVENT_ID,))


@pytest.mark.clause("1.12", "3.2")
def test_valid_approval_gets_200_with_an_empty_body() -> None:
    answer = make_endpoint().approved("w0", None, now=NOW)
    assert answer.payload == (
        b"HTTP/1.1 200 OK\r\nServer: forewarn\r\n"
        b"Content-Type: application/json; charset=utf-8\r\n"
        b"Content-Length: 0\r\n\r\n"
    )


@pytest.mark.clause("1.8", "3.3")
def test_refusal_contains_the_reason() -> None:
    answer = read(make_endpoint().approved("w0", 'no "event"', now=NOW))
    assert (answer.status, answer.json) == (400, {"error": 'no "event"'})


# -- the instance endpoint


def described(path: str, query: str = "api-version=2021-02-01") -> object:
    endpoint = make_endpoint()
    question = ask(endpoint, get(query, path=f"/metadata/instance{path}"))
    assert isinstance(question, Describe)
    return endpoint.described(question, FACTS)


@pytest.mark.clause("1.11")
def test_vm_reads_its_name() -> None:
    answer = read(described("/compute/name", "api-version=2019-06-01&format=text"))
    assert answer.body == b"WestNO_0"
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert read(described("")).json["compute"]["name"] == "WestNO_0"
    assert read(described("/compute/")).json["name"] == "WestNO_0"


@pytest.mark.clause("1.11")
def test_leaf_needs_text_format_and_branch_in_text_is_a_list() -> None:
    assert read(described("/compute/name")).json == {
        "error": "Bad request. A single value is given with format=text only"
    }
    text = "api-version=2017-04-02&format=text"
    assert read(described("", text)).body == b"compute/\nnetwork/"
    assert read(described("/network/interface", text)).body == b"0/"
    assert read(described("/compute/tags", text.replace("04-02", "08-01"))).body == (
        "role:web;tier:ü".encode()
    )


@pytest.mark.clause("1.2", "1.11")
def test_missing_path_is_404() -> None:
    assert read(described("/compute/nothing")).status == 404
    assert read(described("/compute/name/more")).status == 404
    endpoint = make_endpoint()
    question = ask(endpoint, get("api-version=2021-02-01", path="/metadata/instance"))
    assert read(endpoint.described(question, None)).status == 404


# -- the rate


@pytest.mark.clause("1.9")
def test_vm_above_the_rate_limit_gets_429() -> None:
    endpoint = make_endpoint(rate_limit=3)
    paths = ["/metadata/scheduledevents", "/metadata/versions", "/metadata/versions"]
    for path in paths:
        assert read(ask(endpoint, get(path=path))).status != 429
    answer = read(ask(endpoint, get()))
    assert (answer.status, answer.json) == (429, {"error": "Too many requests"})
    assert answer.headers["Retry-After"] == "1"
    assert read(ask(endpoint, get(), WEST_1)).status == 200
    soon = endpoint.handle(get(), WEST_0, now=NOW, monotonic=0.2)
    assert read(soon).status == 429
    later = endpoint.handle(get(), WEST_0, now=NOW, monotonic=0.4)
    assert read(later).status == 200
    much_later = [
        read(endpoint.handle(get(), WEST_0, now=NOW, monotonic=99.0)).status
        for _ in range(4)
    ]
    assert much_later == [200, 200, 200, 429]


def statuses_of(endpoint: Endpoint, *requests: Request) -> list[int]:
    """Return what each is answered; 0 for a question to control."""
    answers = [ask(endpoint, request) for request in requests]
    return [
        0 if isinstance(answer, Approve) else read(answer).status for answer in answers
    ]


BAD_REQUESTS = {
    "a path": get(path="/nowhere"),
    "a verb": get(method="PUT"),
    "a body": post(b"{"),
}


@pytest.mark.clause("1.9")
@pytest.mark.parametrize("bad", BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_refused_requests_do_not_use_the_rate_limit_of_approvals(bad: Request) -> None:
    endpoint = make_endpoint(rate_limit=5)
    statuses = statuses_of(endpoint, *[bad] * 20)
    assert 429 not in statuses[:5]
    assert set(statuses[5:]) == {429}
    good = post(approval(EVENT_ID))
    assert statuses_of(endpoint, good, *[bad] * 20, get()) == [0, *[429] * 20, 200]
    # And what is refused does not come back sooner for it.
    soon = endpoint.handle(bad, WEST_0, now=NOW, monotonic=0.2)
    assert read(soon).status in (400, 404, 405)


@pytest.mark.clause("1.9")
def test_approval_is_charged_by_size_before_it_is_parsed() -> None:
    endpoint = make_endpoint(rate_limit=20)
    long = post(approval(EVENT_ID) + " " * (100 << 10))
    assert statuses_of(endpoint, long, long, get()) == [0, 429, 200]
    # A malformed one is charged to what may be refused, and then not parsed at all.
    endpoint = make_endpoint(rate_limit=20)
    bad = post("[" * (100 << 10))
    assert statuses_of(endpoint, bad, bad, bad, get()) == [400, 429, 429, 200]
    # A full bucket is enough for any request.
    assert statuses_of(make_endpoint(rate_limit=1), long) == [0]


@pytest.mark.clause("1.9")
def test_rate_limit_below_one_still_allows_requests() -> None:
    endpoint = make_endpoint(rate_limit=0.5)
    assert read(ask(endpoint, get())).status == 200
    assert read(ask(endpoint, get())).status == 429
    later = endpoint.handle(get(), WEST_0, now=NOW, monotonic=2.0)
    assert read(later).status == 200


@pytest.mark.clause("1.9")
def test_request_repeated_after_enabling_does_not_count_twice() -> None:
    endpoint = make_endpoint(rate_limit=1)
    assert ask(endpoint, get(), ALONE) == Enable()
    endpoint.publish(published(snapshot(view="alone")))
    again = endpoint.handle(get(), ALONE, now=NOW, monotonic=0.0, again=True)
    assert read(again).status == 200


# -- the shortcut


@pytest.mark.clause("1.9", "1.10")
def test_a_repeated_request_is_answered_like_the_first() -> None:
    """Two endpoints hear the same story, one by each way; all answers are equal."""
    story = [
        Publication(),
        published(snapshot(2, EVENT)),
        published(snapshot(2, EVENT)),
        published(snapshot(1, enabled=False)),
        published(snapshot(1, epoch=2, ready_at=NOW + 1)),
        published(snapshot(2, STARTED, epoch=3)),
        Publication(guests_gone=("w0",)),
        Publication(guests=GUESTS),
        Publication(),
    ]
    for request in [get(), get(if_none_match='"2"'), get("api-version=2017-03-01")]:
        whole, short = make_endpoint(rate_limit=3), make_endpoint(rate_limit=3)
        route = short.repeatable(request, WEST_0)
        assert isinstance(route, Read)
        answers: list[object] = []
        for at, publication in enumerate(story * 4):
            # Slowly at first, then so fast that the rate is exceeded.
            seconds = min(at, len(story)) + at * 0.1
            whole.publish(publication)
            short.publish(publication)
            first = whole.handle(request, WEST_0, now=NOW, monotonic=seconds)
            second = short.repeat(route, WEST_0, now=NOW, monotonic=seconds)
            assert first == second
            assert whole.take_last_seen() == short.take_last_seen()
            answers.append(first.status if isinstance(first, Response) else first)
        assert {200, 404, 429, Enable(), Hold(until=NOW + 1)} <= set(answers)


def test_only_a_plain_get_of_the_document_is_repeatable() -> None:
    endpoint = make_endpoint()
    for request in [
        post(approval(EVENT_ID)),
        get("api-version=2021-02-01", path="/metadata/instance"),
        get(path="/metadata/versions"),
        get(method="PUT"),
        get(metadata=""),
        get(x_forwarded_for="a"),
        get(expect="100-continue"),
    ]:
        assert endpoint.repeatable(request, WEST_0) is None
