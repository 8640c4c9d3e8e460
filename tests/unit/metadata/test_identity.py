"""Identification of callers: no VM gets the document of another."""

import hmac
import logging
from dataclasses import replace
from hashlib import sha256

import pytest

from forewarn.metadata import answers, identity
from forewarn.metadata.endpoint import Enable
from forewarn.metadata.http import Request
from forewarn.metadata.identity import (
    INSTANCE_HEADER,
    SIGNATURE_HEADER,
    Source,
    normal_address,
)
from forewarn.protocol.published import Publication
from tests.unit.metadata.support import (
    EVENT,
    GUESTS,
    NOW,
    WEST_0,
    WEST_1,
    ask,
    get,
    make_endpoint,
    published,
    read,
    snapshot,
)

SECRET = b"proxy secret"
PROXY = Source(address="198.51.100.1")
VM_ID = GUESTS[0].vm_id


def signed(vm_id: str = VM_ID, *, secret: bytes = SECRET, **headers: str) -> Request:
    signature = hmac.new(secret, vm_id.encode(), sha256).hexdigest()
    proof = {"x_instance_id": vm_id, "x_instance_id_signature": signature}
    return get(**{**proof, **headers})


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("192.0.2.4", "192.0.2.4"),
        ("::ffff:192.0.2.4", "192.0.2.4"),
        ("::FFFF:c000:204", "192.0.2.4"),
        ("2001:DB8:0:0::7", "2001:db8::7"),
        ("fe80::1%eth0", "fe80::1"),
        ("not:an address", "not:an address"),
        ("", ""),
    ],
)
def test_address_is_normalized(text: str, normal: str) -> None:
    assert normal_address(text) == normal


@pytest.mark.clause("1.1")
def test_vm_is_identified_by_any_of_its_addresses_or_its_listener() -> None:
    endpoint = make_endpoint()
    assert endpoint.identify(get(), Source(address="192.0.2.4")) == "w0"
    assert endpoint.identify(get(), Source(address="127.0.0.1")) == "w1"
    assert endpoint.identify(get(), Source(address="2001:db8::7")) == "alone"
    assert endpoint.identify(get(), Source(address="192.0.2.4", vm="alone")) == "alone"
    assert endpoint.identify(get(), Source(address="192.0.2.4", vm="gone")) is None


@pytest.mark.clause("1.1")
def test_each_vm_gets_the_document_of_its_view() -> None:
    endpoint = make_endpoint()
    endpoint.publish(published(snapshot(2, EVENT), snapshot(view="alone")))
    assert read(ask(endpoint, get())).json["DocumentIncarnation"] == 2
    alone = ask(endpoint, get(), Source(address="x", vm="alone"))
    assert read(alone).json == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.clause("1.1")
def test_unknown_caller_gets_404_and_one_log_line_per_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint = make_endpoint()
    stranger = Source(address="203.0.113.9\n")
    with caplog.at_level(logging.WARNING, logger="forewarn.metadata"):
        for second in (0.0, 1.0, 59.0, 60.0, 61.0):
            answer = endpoint.handle(get(), stranger, now=NOW, monotonic=second)
            assert (read(answer).status, read(answer).json["error"]) == (
                404,
                "Not found",
            )
    assert [record.getMessage()[:63] for record in caplog.records] == [
        r"unknown caller '203.0.113.9\n' got 404 (1 such requests so far)",
        r"unknown caller '203.0.113.9\n' got 404 (4 such requests so far)",
    ]
    assert endpoint.counters.unknown_callers == 5


@pytest.mark.clause("1.1")
def test_addresses_are_swapped_in_one_publication_in_either_order() -> None:
    moved = (
        replace(GUESTS[0], addresses=("192.0.2.5",)),
        replace(GUESTS[1], addresses=("192.0.2.4",)),
    )
    for guests in (moved, moved[::-1]):
        endpoint = make_endpoint()
        endpoint.publish(Publication(guests=guests))
        assert endpoint.identify(get(), WEST_0) == "w1"
        assert endpoint.identify(get(), WEST_1) == "w0"
        assert endpoint.identify(get(), Source(address="127.0.0.1")) is None


@pytest.mark.clause("1.1")
def test_deleted_vm_does_not_remove_a_reassigned_address() -> None:
    endpoint = make_endpoint()
    heir = replace(GUESTS[2], vm="heir", addresses=("192.0.2.4",), vm_id=VM_ID)
    endpoint.publish(Publication(guests=(heir,)))
    endpoint.publish(Publication(guests_gone=("w0",)))
    assert endpoint.identify(get(), WEST_0) == "heir"
    assert set(endpoint.directory.by_vm_id) >= {VM_ID}


# -- a metadata proxy's signature


@pytest.mark.clause("1.1", "1.7")
def test_signed_request_is_identified_as_the_signed_vm() -> None:
    endpoint = make_endpoint(secret=SECRET)
    assert read(ask(endpoint, signed(), PROXY)).status == 200
    assert endpoint.identify(signed(), PROXY) == "w0"
    assert endpoint.identify(signed(GUESTS[2].vm_id), PROXY) == "alone"
    assert ask(endpoint, signed(GUESTS[2].vm_id), PROXY) == Enable()
    assert endpoint.repeatable(signed(), PROXY) is None


@pytest.mark.clause("1.1")
def test_valid_signature_does_not_validate_others() -> None:
    endpoint = make_endpoint(secret=SECRET)
    for _ in range(2):
        assert endpoint.identify(signed(), PROXY) == "w0"
        assert endpoint.identify(signed(secret=b"other"), PROXY) is None
        another = signed(x_instance_id=GUESTS[1].vm_id)
        assert endpoint.identify(another, PROXY) is None
    endpoint.directory.drop("w0")
    assert endpoint.identify(signed(), PROXY) is None


@pytest.mark.clause("1.1")
def test_signature_covers_the_case_of_the_instance_id() -> None:
    endpoint = make_endpoint(secret=SECRET)
    vm_id = f"abcdefab{VM_ID[8:]}"
    endpoint.publish(Publication(guests=(replace(GUESTS[0], vm_id=vm_id),)))
    lower, upper = signed(vm_id), signed(vm_id.upper())
    assert lower.values(SIGNATURE_HEADER) != upper.values(SIGNATURE_HEADER)
    for mine, other in ((lower, upper), (upper, lower)):
        assert endpoint.identify(mine, PROXY) == "w0"
        [name] = other.values(INSTANCE_HEADER)
        assert endpoint.identify(mine, PROXY) == "w0"
        forged = {**mine.headers, INSTANCE_HEADER: (name,)}
        assert endpoint.identify(mine._replace(headers=forged), PROXY) is None


@pytest.mark.clause("1.1")
def test_empty_signature_is_rejected_for_an_empty_instance_id() -> None:
    """A fleet's ids are GUIDs; if one ever were not, nothing must be open for it."""
    endpoint = make_endpoint(secret=SECRET)
    endpoint.publish(Publication(guests=(replace(GUESTS[0], vm_id=""),)))
    proof = signed("").headers
    named = get()._replace(headers={**proof, INSTANCE_HEADER: ("",)})
    empty = named._replace(headers={**named.headers, SIGNATURE_HEADER: ("",)})
    assert endpoint.identify(empty, PROXY) is None
    assert endpoint.identify(named, PROXY) == "w0"
    assert endpoint.identify(empty, PROXY) is None


@pytest.mark.clause("1.1")
def test_signature_identifies_the_current_vm_with_its_id() -> None:
    endpoint = make_endpoint(secret=SECRET)
    assert endpoint.identify(signed(), PROXY) == "w0"
    heir = replace(GUESTS[0], vm="heir", addresses=("192.0.2.99",))
    endpoint.publish(Publication(guests=(heir,), guests_gone=("w0",)))
    assert endpoint.identify(signed(), PROXY) == "heir"
    another = GUESTS[1].vm_id
    endpoint.publish(Publication(guests=(replace(heir, vm_id="a" * 8 + VM_ID[8:]),)))
    assert endpoint.identify(signed(), PROXY) is None
    assert endpoint.identify(signed(x_instance_id=another), PROXY) is None
    assert endpoint.identify(signed("A" * 8 + VM_ID[8:]), PROXY) == "heir"


@pytest.mark.clause("1.1")
def test_signatures_are_compared_in_constant_time_cached_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def noted(expected: bytes, given: bytes) -> bool:
        compared.append((expected, given))
        return compare(expected, given)

    monkeypatch.setattr(identity.hmac, "compare_digest", noted)
    endpoint = make_endpoint(secret=SECRET)
    right, wrong = signed(), signed(secret=b"other")
    stranger = signed("99999999-2222-3333-4444-555555555555")
    for request in (right, right, wrong, stranger):
        endpoint.identify(request, PROXY)
    signatures = [
        request.values(SIGNATURE_HEADER)[0].encode() for request in (right, wrong)
    ]
    assert [signature for _, signature in compared[:3]] == [
        signatures[0],
        signatures[0],
        signatures[1],
    ]
    assert [signature for signature, _ in compared[:3]] == [signatures[0]] * 3
    assert len(compared) == 4


@pytest.mark.clause("1.7")
def test_forwarded_request_is_accepted_only_with_a_signature() -> None:
    endpoint = make_endpoint(secret=SECRET)
    forwarded = signed(x_forwarded_for="10.0.0.4")
    assert read(ask(endpoint, forwarded, PROXY)).status == 200
    assert read(ask(endpoint, get(x_forwarded_for="10.0.0.4"))).status == 400


@pytest.mark.clause("1.1")
@pytest.mark.parametrize(
    "request_",
    [
        signed(secret=b"other"),
        signed(x_instance_id_signature=""),
        signed(x_instance_id_signature="a|b"),
        signed(x_instance_id_signature="\xe9"),
        signed(x_instance_id=GUESTS[1].vm_id),
        signed(x_instance_id=f"{VM_ID}|{VM_ID}"),
        signed("99999999-2222-3333-4444-555555555555"),
        get(x_instance_id_signature="00"),
    ],
)
def test_invalid_signature_is_an_unknown_caller_even_at_a_known_address(
    request_: Request,
) -> None:
    endpoint = make_endpoint(secret=SECRET)
    assert read(ask(endpoint, request_)).status == 404
    assert endpoint.identify(request_, WEST_0) is None


@pytest.mark.clause("1.1", "1.7")
def test_proxy_headers_are_ignored_without_a_secret() -> None:
    endpoint = make_endpoint()
    assert endpoint.identify(signed(secret=b""), WEST_1) == "w1"
    assert read(ask(endpoint, signed(), PROXY)).status == 404
    assert read(ask(endpoint, signed(x_forwarded_for="a"))).status == 400


@pytest.mark.clause("1.1")
def test_listener_of_a_vm_takes_precedence_over_a_signature() -> None:
    endpoint = make_endpoint(secret=SECRET)
    own = Source(address="192.0.2.4", vm="w1")
    assert endpoint.identify(signed(), own) == "w1"


@pytest.mark.clause("1.1", "1.6")
def test_refusal_needs_an_identified_vm() -> None:
    endpoint = make_endpoint(secret=SECRET)

    def status(request: Request | None, source: Source) -> int:
        return endpoint.refuse(
            answers.BODY_TOO_LARGE, request, source, monotonic=0
        ).status

    assert status(signed(), PROXY) == 413
    assert status(signed(secret=b"other"), WEST_0) == 404
    assert status(None, PROXY) == 404
    assert status(None, WEST_0) == 413
    assert endpoint.counters.unknown_callers == 2


@pytest.mark.parametrize("vm_id", [VM_ID, "nobody"])
def test_proxy_is_identified_by_a_valid_signature(vm_id: str) -> None:
    directory = make_endpoint(secret=SECRET).directory
    directory.by_signature(signed(vm_id, secret=b"other"), WEST_0)
    assert not directory.is_proxy(WEST_0)
    directory.by_signature(signed(vm_id), PROXY)
    assert directory.is_proxy(PROXY)
    assert not directory.is_proxy(WEST_0)
    assert not directory.is_proxy(PROXY._replace(vm="w0"))
    directory.forget_proxy(PROXY)
    assert not directory.is_proxy(PROXY)
