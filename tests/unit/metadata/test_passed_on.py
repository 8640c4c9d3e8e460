"""Requests of VMs that another replica passes on: its signature counts, and only once."""

from dataclasses import replace
from itertools import count

import pytest

from forewarn.metadata import answers, passed_on
from forewarn.metadata.endpoint import Approve
from forewarn.metadata.http import Request
from forewarn.metadata.identity import Source
from forewarn.protocol.published import Publication
from tests.unit.metadata.support import (
    EVENT,
    GUESTS,
    NOW,
    WEST_0,
    approval,
    ask,
    get,
    make_endpoint,
    post,
)

KEY = passed_on.replica_key("secret of the store", 7)
REPLICA = Source(address="198.51.100.2")


NUMBERS = count(1)


def proof(
    vm: str,
    *,
    method: str = "GET",
    body: str = "",
    key: bytes = KEY,
    sender: str = "b 1",
    number: int | None = None,
) -> dict[str, str]:
    headers = passed_on.replica_headers(
        key,
        vm,
        method=method,
        body=body.encode(),
        sender=sender,
        number=next(NUMBERS) if number is None else number,
    )
    return {name.replace("-", "_"): value for name, value in headers.items()}


def signed(vm: str, *, key: bytes = KEY, **headers: str) -> Request:
    return get(**{**proof(vm, key=key), **headers})


def test_vm_is_identified_by_the_signature_of_a_replica() -> None:
    endpoint = make_endpoint()
    endpoint.directory.trust_replicas(KEY)
    assert endpoint.identify(signed("w0"), REPLICA) == "w0"
    assert endpoint.directory.is_proxy(REPLICA)
    assert endpoint.identify(get(), REPLICA) is None
    # The signature counts, not the address of a VM that pretends to be a replica.
    assert endpoint.identify(signed("w1"), WEST_0) == "w1"


def test_name_with_any_character_can_be_signed() -> None:
    endpoint = make_endpoint()
    endpoint.directory.trust_replicas(KEY)
    name = "\u00fc 1%\u20ac"
    endpoint.publish(Publication(guests=(replace(GUESTS[0], vm=name, addresses=()),)))
    assert endpoint.identify(signed(name), REPLICA) == name


@pytest.mark.parametrize(
    "request_",
    [
        signed("w0", key=passed_on.replica_key("secret of the store", 6)),
        signed("w0", key=passed_on.replica_key("another secret", 7)),
        signed("w0", x_forewarn_vm="w1"),
        signed("w0", x_forewarn_vm_signature=""),
        signed("gone"),
        get(x_forewarn_vm="w0"),
        signed("w0", x_forewarn_request=""),
        signed("w0", x_forewarn_request="b%201 1 " + "0" * 64),
        signed("w0")._replace(method="POST"),
    ],
    ids=[
        "an earlier term",
        "another secret",
        "another name",
        "no signature",
        "no VM",
        "no header",
        "no number",
        "another number",
        "another method",
    ],
)
def test_request_with_a_wrong_signature_of_a_replica_has_no_caller(
    request_: Request,
) -> None:
    endpoint = make_endpoint()
    endpoint.directory.trust_replicas(KEY)
    assert endpoint.identify(request_, WEST_0) is None


def test_without_a_key_the_headers_of_replicas_mean_nothing() -> None:
    endpoint = make_endpoint()
    assert endpoint.identify(signed("w1"), WEST_0) == "w0"
    assert endpoint.identify(signed("w1"), REPLICA) is None


def test_replica_that_does_not_lead_believes_neither_signature_nor_address() -> None:
    endpoint = make_endpoint()
    endpoint.directory.trust_replicas(b"")
    for key in (KEY, b""):
        assert endpoint.identify(signed("w1", key=key), WEST_0) is None
    assert endpoint.identify(get(), WEST_0) == "w0"


def test_response_is_not_kept_for_another_vm_of_the_same_replica() -> None:
    endpoint = make_endpoint()
    endpoint.directory.trust_replicas(KEY)
    assert endpoint.repeatable(signed("w0"), REPLICA) is None


def approving(body: str, *, sender: str = "b 1", number: int | None = None) -> Request:
    headers = proof("w0", method="POST", body=body, sender=sender, number=number)
    return post(body, **headers)


def test_request_that_was_passed_on_is_taken_once() -> None:
    endpoint = make_endpoint()
    endpoint.directory.trust_replicas(KEY)
    request = approving(approval(EVENT.event_id))
    assert isinstance(ask(endpoint, request, REPLICA), Approve)
    assert ask(endpoint, request, REPLICA) is answers.NOT_FOUND
    assert isinstance(
        endpoint.handle(request, REPLICA, now=NOW, monotonic=0.0, again=True), Approve
    ), "the question of the first one has a reply"
    # The same approval of the VM, in a new request.
    newer = approving(approval(EVENT.event_id))
    assert isinstance(ask(endpoint, newer, REPLICA), Approve)


def test_signature_is_worth_nothing_for_another_body() -> None:
    endpoint = make_endpoint()
    endpoint.directory.trust_replicas(KEY)
    request = approving(approval(EVENT.event_id))
    other = request._replace(body=approval("another event").encode())
    assert ask(endpoint, other, REPLICA) is answers.NOT_FOUND
    # It did not use up the number of the right one.
    assert isinstance(ask(endpoint, request, REPLICA), Approve)


def test_requests_may_overtake_each_other() -> None:
    taken = passed_on.TakenRequests()
    window = passed_on.NUMBERS_KEPT

    def take(number: int, sender: str = "b 1") -> bool:
        return taken.take(approving("", sender=sender, number=number))

    assert [take(number) for number in (3, 1, 2)] == [True] * 3
    assert not any(take(number) for number in (3, 1, 2))
    assert take(1, "c 2"), "each sender counts by itself"
    assert take(window)
    assert not take(3)
    assert take(window + 3)
    assert not take(3), "it is too old: it may have been taken"
    assert take(4)
    assert not take(4)
    assert take(9 * window)
    assert not take(window + 3)
    assert take(9 * window - 1)


def test_further_senders_than_are_remembered_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passed_on, "SENDERS_MAX", 2)
    taken = passed_on.TakenRequests()
    senders = ("a", "b", "c", "a")
    are_taken = [taken.take(approving("", sender=sender)) for sender in senders]
    assert are_taken == [True, True, False, True]
