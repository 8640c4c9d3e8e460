"""Deviations of clients from the protocol, with their clauses."""

from dataclasses import replace

import pytest

from forewarn.metadata import answers, routes
from forewarn.metadata.http import Request, Response
from forewarn.sim import deviations
from forewarn.sim.deviations import RULES, Inspector
from tests.unit.metadata.support import EVENT, EVENT_ID, PATH, approval, get, post

OTHER_ID = "D7061BAC-AFDC-4513-B24B-AA5F13A16124"
FOREIGN_ID = "E7061BAC-AFDC-4513-B24B-AA5F13A16125"
STORED = {
    EVENT_ID: EVENT,
    FOREIGN_ID: replace(EVENT, event_id=FOREIGN_ID, scope="east"),
}

CASES: dict[str, tuple[Request, list[str]]] = {
    "as documented": (get(), []),
    "an approval": (post(approval(EVENT_ID)), []),
    "the instance": (get("api-version=2021-02-01", path="/metadata/instance"), []),
    "a leaf": (
        get(
            "api-version=2021-02-01&format=text",
            path="/metadata/instance/compute/name",
        ),
        [],
    ),
    "no header": (get(metadata=""), ["header"]),
    "a false header": (get(metadata="false"), ["header"]),
    "no header at 2017-03-01": (get("api-version=2017-03-01", metadata=""), []),
    "latest": (get("api-version=latest"), ["version"]),
    "no version": (get(""), ["version"]),
    "forwarded": (get(x_forwarded_for="192.0.2.1"), ["forwarded"]),
    "HEAD": (get(method="HEAD"), ["verb"]),
    "elsewhere": (get(path="/metadata/latest/scheduledevents"), ["path"]),
    "capitals": (get(path="/metadata/scheduledEvents"), ["path-case"]),
    "a slash": (get(path=PATH + "/"), ["path-spelling"]),
    "a whole address": (
        get(path="http://169.254.169.254" + PATH),
        ["path-spelling"],
    ),
    "a wrong format": (
        get("api-version=2021-02-01&format=xml", path="/metadata/instance"),
        ["parameter"],
    ),
    "an empty approval": (post(""), ["no-body"]),
    "no JSON": (post("{"), ["body"]),
    "no header and no JSON": (post("{", metadata=""), ["header", "body"]),
}


@pytest.mark.parametrize("case", CASES)
def test_deviations_of_a_single_request_are_found(case: str) -> None:
    request, wanted = CASES[case]
    reported = deviations.inspect(request, routes.route(request))
    assert [deviation.name for deviation in reported] == wanted


def inspector() -> Inspector:
    return Inspector(route=routes.route, event=STORED.get)


def judged(
    judge: Inspector,
    request: Request,
    genuine: Response | None = answers.APPROVED,
    *,
    vm: str = "w0",
    at: float = 0.0,
    given: Response | None = None,
) -> list[str]:
    reported = judge.judge(
        vm, request, genuine=genuine, answer=given or genuine, io_time=at
    )
    return [deviation.name for deviation in reported]


def test_second_approval_is_a_deviation() -> None:
    judge = inspector()
    assert judged(judge, post(approval(EVENT_ID))) == []
    assert judged(judge, post(approval(EVENT_ID))) == ["again"]
    assert judged(judge, post(approval(EVENT_ID.lower())), vm="w1") == ["unnamed"]


def test_approval_with_a_lost_response_can_be_repeated() -> None:
    judge = inspector()
    request = post(approval(EVENT_ID))
    assert judged(judge, request, given=answers.FAULT) == []
    assert judged(judge, request, None) == []
    assert judged(judge, request) == []
    assert judged(judge, request) == ["again"]


def test_foreign_and_unknown_events_are_distinguished() -> None:
    for event_id, name in ((FOREIGN_ID, "foreign-event"), (OTHER_ID, "unknown-event")):
        refusal = answers.error(400, f"EventId {event_id} is not in this VM's document")
        request = post(approval(EVENT_ID, event_id))
        assert judged(inspector(), request, refusal) == [name]


def test_frequent_polling_is_reported_once_per_second() -> None:
    judge = inspector()
    names_by_request = [judged(judge, get(), at=n / 10) for n in range(16)]
    hasty = [n for n, names in enumerate(names_by_request) if names]
    assert hasty == [5, 15]
    assert [judged(judge, get(), vm="w1", at=float(n)) for n in range(9)] == [[]] * 9


def test_changed_request_of_a_poller_is_judged_again() -> None:
    judge = inspector()
    wrong, right = get(metadata=""), get()
    assert judged(judge, wrong, answers.HEADER_MISSING) == ["header"]
    assert judged(judge, wrong, answers.HEADER_MISSING, at=1) == ["header"]
    assert judged(judge, right, at=2) == []


def test_each_deviation_has_a_readable_text() -> None:
    (found,) = deviations.inspect(get(metadata="no"), answers.HEADER_MISSING)
    assert str(found) == (
        "`Metadata: true` is missing, repeated or has another value (1.6): it was 'no'"
    )
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.sentence[0].isupper() or rule.sentence[0] in "`aX"
    (unread,) = deviations.unread(answers.MALFORMED)
    assert unread.name == "http"
