"""Section 1: address, versions, headers."""

from pathlib import Path

import pytest

from forewarn.instants import format_http_date
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.testing.conformance.check import Check, NotTried
from forewarn.testing.conformance.checks import checks_of
from forewarn.testing.conformance.inquiry import start_requests
from forewarn.testing.conformance.traffic_questions import BURST
from tests.spec import support
from tests.spec.support import (
    DB,
    WEB,
    ServedWorld,
    durable_world,
    each_check,
    fleet,
    make_world,
    served,
)

PATH = "/metadata/scheduledevents"
TARGET = f"{PATH}?api-version=2020-07-01"
HEADER = {"metadata": ("true",)}


# 1.1


@pytest.mark.system
@pytest.mark.clause("1.1")
@each_check("1.1")
def test_address_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("1.1")
def test_no_vm_gets_the_document_of_another_scope() -> None:
    world = make_world(listening=["web_0", "db_1"])
    support.reboot(world, "web_0")
    assert support.seen(world, "web_0") == [("Scheduled", "Reboot", ["web_0"])]
    assert support.seen(world, "db_0") == []


@pytest.mark.clause("1.1")
def test_unknown_caller_gets_404() -> None:
    world = make_world(
        fleet(
            hosts=["h1"],
            scopes={"web": WEB},
            vms={"a": {"host": "h1", "scope": "web", "address": "192.0.2.4"}},
        ),
        listening=["a"],
    )

    def ask(address: str, vm: str = "") -> int:
        request = Request(
            method="GET", path=PATH, query="api-version=2020-07-01", headers=HEADER
        )
        answer = world.endpoint.handle(
            request, Source(address=address, vm=vm), now=world.now, monotonic=0
        )
        assert isinstance(answer, Response)
        return answer.status

    assert ask("192.0.2.4") == 200
    assert ask("192.0.2.5") == 404
    assert ask("192.0.2.4", vm="nobody") == 404


# 1.2


@pytest.mark.system
@pytest.mark.clause("1.2")
@each_check("1.2")
def test_path_and_method_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("1.2")
@pytest.mark.parametrize(
    "path",
    [
        f"{PATH}/",
        "/metadata/scheduledevent%73",
        "http://169.254.169.254/metadata/scheduledevents",
        "/METADATA/SCHEDULEDEVENTS",
    ],
)
def test_equivalent_spellings_of_the_path_are_accepted(path: str) -> None:
    vm = make_world().vm("web_0")
    answer = vm.ask("GET", f"{path}?api-version=2020-07-01", headers=HEADER)
    assert answer.status == 200


@pytest.mark.clause("1.2")
@pytest.mark.parametrize(
    "path", [f"{PATH}//", f"/{PATH}", "/metadata%2fscheduledevents", "/metadata/x/../"]
)
def test_other_spellings_of_the_path_return_404(path: str) -> None:
    vm = make_world().vm("web_0")
    answer = vm.ask("GET", f"{path}?api-version=2020-07-01", headers=HEADER)
    assert answer.status == 404


@pytest.mark.clause("1.2")
def test_405_lists_the_allowed_methods() -> None:
    vm = make_world().vm("web_0")
    assert vm.ask("HEAD", TARGET, headers=HEADER).status == 405
    assert vm.ask("PUT", TARGET, headers=HEADER).headers["allow"] == "GET, POST"


# 1.3 to 1.5


@pytest.mark.system
@pytest.mark.clause("1.3")
@each_check("1.3")
def test_version_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.system
@pytest.mark.clause("1.4")
@each_check("1.4")
def test_version_shows_its_fields(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.system
@pytest.mark.clause("1.5")
@each_check("1.5")
def test_version_hides_newer_event_types(endpoint: ServedWorld, check: Check) -> None:
    client = endpoint.client("m_0")
    types = {event["EventType"] for event in client.ask("GET", TARGET).json["Events"]}
    assert types == {"Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"}
    support.assert_kept(check, client)


# 1.6 and 1.7


@pytest.mark.system
@pytest.mark.clause("1.6")
@each_check("1.6")
def test_header_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("1.6")
def test_bare_root_returns_400_and_not_404() -> None:
    vm = make_world().vm("web_0")
    assert vm.ask("GET", "/").status == 400
    assert vm.ask("GET", "/", headers=HEADER).status == 404


@pytest.mark.system
@pytest.mark.clause("1.7")
@each_check("1.7")
def test_forwarded_request_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


# 1.8


@pytest.mark.system
@pytest.mark.clause("1.8")
@each_check("1.8")
def test_error_body_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("1.8")
def test_response_to_a_bad_version_lists_the_valid_ones() -> None:
    vm = make_world().vm("web_0")
    answer = vm.ask("GET", f"{PATH}?api-version=latest", headers=HEADER)
    assert answer.json["newest-versions"] == ["2020-07-01", "2019-08-01", "2019-04-01"]
    assert "api-version is invalid or was not specified" in answer.json["error"]


# 1.9


@pytest.mark.system
@pytest.mark.clause("1.9")
@each_check("1.9")
def test_rate_limit_checks_are_not_tried_without_a_limit(
    endpoint: ServedWorld, check: Check
) -> None:
    verdict = support.verdict_of(check, endpoint.client("m_0"))
    assert isinstance(verdict, NotTried)
    assert "150 successive requests did not reach one" in verdict.needs


@pytest.mark.system
@pytest.mark.clause("1.9")
@each_check("1.9")
def test_too_many_requests_return_429(check: Check) -> None:
    with served(make_world(rate_limit=BURST / 3)) as limited:
        client = limited.client("web_0")

        def wait() -> None:
            limited.do(lambda world: world.advance("1s"))

        support.assert_kept(check, client, wait=wait)
        for _ in range(BURST):
            client.ask("GET", TARGET)
        assert client.ask("GET", TARGET).status == 429


@pytest.mark.clause("1.9")
def test_rate_limit_covers_one_vm_and_all_its_paths() -> None:
    world = make_world(rate_limit=5, listening=["web_0", "web_1"])
    vm = world.vm("web_0")
    world.advance("1s")
    for path in (TARGET, "/metadata/versions", TARGET, "/metadata/versions", TARGET):
        # Refused requests have a separate counter.
        assert vm.ask("GET", "/", headers=HEADER).status == 404
        assert vm.ask("GET", path, headers=HEADER).status != 429
    refused = vm.ask("GET", "/metadata/versions", headers=HEADER)
    assert refused.status == 429
    assert refused.headers["retry-after"] == "1"
    assert vm.ask("GET", "/", headers=HEADER).status == 429
    assert world.vm("web_1").get().status == 200
    world.advance("1s")
    assert vm.get().status == 200


@pytest.mark.clause("1.9")
def test_request_over_the_limit_has_no_effect() -> None:
    world = make_world(rate_limit=1, listening=["web_0"])
    support.reboot(world, "web_0")
    world.advance("1s")
    event_id = support.only_event(world, "web_0")["EventId"]
    assert world.vm("web_0").approve(event_id).status == 429
    assert not world.live_events()[0].is_approved


# 1.10


@pytest.mark.system
@pytest.mark.clause("1.10")
@each_check("1.10")
def test_tag_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("1.10", "7.3")
def test_tag_from_before_a_reset_never_matches() -> None:
    world = make_world()
    vm = world.vm("web_0")
    assert vm.get(etag='"1"').status == 200
    assert vm.get(etag='"1"').status == 304
    world.advance("24h")
    assert vm.get(etag='"1"').status == 200
    assert vm.get(etag='"1"').status == 304
    assert world.vm("web_1").get(etag="1").status == 200


@pytest.mark.clause("1.10")
def test_first_answer_after_a_restart_is_complete(tmp_path: Path) -> None:
    with durable_world(tmp_path, listening=["web_0"]) as world:
        assert world.vm("web_0").get(etag='"1"').status == 304
        world.restart()
        assert world.vm("web_0").get(etag='"1"').status == 200
        assert world.vm("web_0").get(etag='"1"').status == 304


@pytest.mark.clause("1.10")
def test_change_ends_304_answers() -> None:
    world = make_world(listening=["web_0"])
    vm = world.vm("web_0")
    support.reboot(world, "web_0")
    answer = vm.get(etag='"1"')
    assert (answer.status, answer.headers["etag"]) == (200, '"2"')
    assert vm.get(etag='"2"').status == 304


# 1.11


@pytest.mark.system
@pytest.mark.clause("1.11")
@each_check("1.11")
def test_vm_reads_its_name_from_the_instance_endpoint(
    endpoint: ServedWorld, check: Check
) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("1.11", "2.5")
def test_vm_can_find_itself_in_resources() -> None:
    world = make_world(
        fleet(
            hosts=["h1"],
            scopes={"web": WEB, "db": DB},
            vms={
                "shop-one": {
                    "host": "h1",
                    "scope": "web",
                    "wire_name": "pool_7",
                    "fault_domain": 3,
                    "update_domain": 4,
                    "resource_group": "rg",
                    "subscription": "s1",
                    "location": "west",
                },
            },
        ),
        listening=["shop-one"],
    )
    vm = world.vm("shop-one")
    support.reboot(world, "shop-one")
    compute = vm.ask(
        "GET", "/metadata/instance?api-version=2021-02-01", headers=HEADER
    ).json["compute"]
    assert support.only_event(world, "shop-one")["Resources"] == [compute["name"]]
    assert compute["name"] == "pool_7"
    assert compute["platformFaultDomain"] == "3"
    assert compute["platformUpdateDomain"] == "4"
    assert compute["resourceGroupName"] == "rg"
    assert compute["subscriptionId"] == "s1"
    assert compute["location"] == "west"
    assert {"vmId", "vmScaleSetName", "zone", "placementGroupId", "tags"} <= {*compute}


@pytest.mark.clause("1.11")
def test_single_leaf_is_served_only_as_text() -> None:
    vm = make_world().vm("web_0")
    leaf = "/metadata/instance/compute/name?api-version=2021-02-01"
    text = vm.ask("GET", f"{leaf}&format=text", headers=HEADER)
    assert (text.status, text.body) == (200, b"web_0")
    assert vm.ask("GET", leaf, headers=HEADER).status == 400
    assert vm.ask("POST", leaf, headers=HEADER).status == 405


# 1.12


@pytest.mark.system
@pytest.mark.clause("1.12")
@each_check("1.12")
def test_body_format_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("1.12")
def test_successful_post_returns_an_empty_body() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    event = support.only_event(world, "web_0")
    answer = world.vm("web_0").approve(event["EventId"])
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == "0"


@pytest.mark.system
@pytest.mark.clause("1.12")
@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", TARGET, 200),
        ("HEAD", TARGET, 405),
        ("GET", "/metadata/nothing", 404),
        ("DELETE", TARGET, 405),
        ("GET", f"/{'x' * 9000}", 414),
    ],
    ids=["document", "HEAD", "not found", "not allowed", "too long"],
)
def test_every_answer_has_a_date_header(
    endpoint: ServedWorld, method: str, target: str, status: int
) -> None:
    answer = endpoint.client("m_0").ask(method, target)
    assert answer.status == status
    now = endpoint.do(lambda world: world.now)
    assert answer.header("Date") == format_http_date(now)


@pytest.mark.system
@pytest.mark.clause("1.12", "3.2")
def test_approval_can_wait_for_100_continue(endpoint: ServedWorld) -> None:
    client = endpoint.client("m_0")
    event = client.ask("GET", TARGET).json["Events"][0]
    goes_on, answer = client.ask_first(TARGET, start_requests(event["EventId"]))
    assert goes_on
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.system
@pytest.mark.clause("1.1", "1.12")
def test_refused_head_gets_no_100_continue(endpoint: ServedWorld) -> None:
    goes_on, answer = endpoint.client("m_0").ask_first(f"{PATH}?api-version=x", b"{}")
    assert not goes_on
    assert answer.status == 400


def test_version_checks_need_an_event() -> None:
    client = support.WorldClient(make_world(), "web_0")
    for clause in ("1.4", "1.5"):
        for check in checks_of(clause):
            assert isinstance(support.verdict_of(check, client), NotTried), check
