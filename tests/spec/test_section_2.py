"""Section 2: the document."""

from pathlib import Path

import pytest

from forewarn.ids import RandomIds
from forewarn.instants import parse_instant
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action
from forewarn.testing.conformance.check import Check, NotTried
from tests.spec import support
from tests.spec.support import (
    FLEET,
    WEB,
    ServedWorld,
    durable_world,
    each_check,
    fleet,
    make_world,
)
from tests.support.worlds import START, World

GOLDEN = Path(__file__).parents[1] / "golden" / "metadata"

ONE_HOST = fleet(
    hosts=["h1", "h2", "h3"],
    scopes={"web": WEB},
    vms={
        "a": {"host": "h1", "scope": "web"},
        "b": {"host": "h1", "scope": "web"},
        "c": {"host": "h2", "scope": "web"},
    },
)
"""Three VMs of one fault domain, two of them on one host."""


# 2.1


@pytest.mark.system
@pytest.mark.clause("2.1")
@each_check("2.1")
def test_document_form_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    if check.title == "Events is an array, empty without events":
        support.assert_kept(check, support.WorldClient(make_world(), "web_0"))
        return
    support.assert_kept(check, endpoint.client("m_0"))
    support.assert_kept(check, endpoint.client("b_0"))


@pytest.mark.clause("2.1")
def test_document_without_events_has_an_empty_list() -> None:
    answer = make_world().vm("web_0").get()
    assert (answer.status, answer.body) == (
        200,
        b'{"DocumentIncarnation":1,"Events":[]}',
    )


@pytest.mark.clause("2.1")
def test_the_oldest_event_comes_first() -> None:
    world = make_world(ONE_HOST, listening=["a"])
    for name in ("c", "a", "b"):
        support.reboot(world, name)
        world.advance("1s")
    names = [resources for _, _, resources in support.seen(world, "a")]
    assert names == [["c"], ["a"], ["b"]]


# 2.2 to 2.4


@pytest.mark.system
@pytest.mark.clause("2.2")
@each_check("2.2")
def test_event_member_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.system
@pytest.mark.clause("2.3")
@each_check("2.3")
def test_event_id_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("2.3")
def test_event_id_is_stable_and_never_reused() -> None:
    world = make_world(listening=["web_0"])
    ids: list[str] = []
    for _ in range(3):
        support.reboot(world, "web_0")
        scheduled = support.only_event(world, "web_0")
        support.approve_all(world, "web_0")
        started = support.only_event(world, "web_0")
        assert (scheduled["EventStatus"], started["EventStatus"]) == (
            "Scheduled",
            "Started",
        )
        assert scheduled["EventId"] == started["EventId"]
        ids.append(started["EventId"])
        world.advance("1h")
        assert support.seen(world, "web_0") == []
    assert len(set(ids)) == 3


@pytest.mark.clause("2.3")
def test_event_id_is_case_insensitive() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    event_id = support.only_event(world, "web_0")["EventId"]
    assert world.vm("web_0").approve(event_id.lower()).status == 200
    assert support.only_event(world, "web_0")["EventStatus"] == "Started"


@pytest.mark.system
@pytest.mark.clause("2.4")
@each_check("2.4")
def test_event_type_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


# 2.5


@pytest.mark.system
@pytest.mark.clause("2.5")
@each_check("2.5")
def test_resource_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


class WestIds(RandomIds):
    """Ids that make the example's event the example's."""

    def event(self) -> str:
        return "C7061BAC-AFDC-4513-B24B-AA5F13A16123"

    def short(self, prefix: str, *, place: str = "") -> str:
        return f"{prefix}-{place}west"

    def events(self, count: int) -> list[str]:
        assert count == 1
        return [self.event()]

    def shorts(self, prefix: str, count: int, *, place: str) -> list[str]:
        assert count == 1
        return [self.short(prefix, place=place)]


@pytest.mark.clause("2.5", "2.10")
def test_the_worked_example_is_served_exactly() -> None:
    world = make_world(
        fleet(
            hosts=["h1", "h2"],
            scopes={"west": WEB},
            vms={
                "WestNO_0": {"host": "h1", "scope": "west"},
                "WestNO_1": {"host": "h1", "scope": "west"},
            },
        ),
        start=parse_instant("2022-04-11T22:11:58Z"),
    )
    world.plane._ids = WestIds()
    vm = world.vm("WestNO_1")
    documents = [vm.get().body]
    support.maintain(world, "h1", action=Action.LIVE_MIGRATE)
    documents.append(vm.get().body)
    support.approve_all(world, "WestNO_0")
    documents.append(vm.get().body)
    world.advance("10m9s")
    assert vm.get().body == documents[-1]
    world.advance("1s")
    documents.append(vm.get().body)
    assert documents == [
        (GOLDEN / f"worked_example_{number}.json").read_bytes()
        for number in (1, 2, 3, 4)
    ]


@pytest.mark.clause("2.5")
def test_vms_of_one_host_share_an_event_and_vms_of_two_do_not() -> None:
    world = make_world(ONE_HOST, listening=["a"])
    support.maintain(world, "h1", "h2")
    names = [resources for _, _, resources in support.seen(world, "c")]
    assert sorted(names) == [["a", "b"], ["c"]]


@pytest.mark.clause("2.5")
def test_vms_of_two_scopes_are_in_two_events() -> None:
    world = make_world(listening=["web_0", "db_0"])
    support.maintain(world, "h1")
    assert support.seen(world, "web_1") == [("Scheduled", "Freeze", ["web_0"])]
    assert support.seen(world, "db_1") == [("Scheduled", "Freeze", ["db_0"])]


def without(text: str, name: str) -> str:
    """Return the fleet file without a VM."""
    tables = text.split("[[")
    return "[[".join(table for table in tables if f'name = "{name}"' not in table)


@pytest.mark.clause("2.5")
def test_removed_vm_leaves_the_resources() -> None:
    world = make_world(ONE_HOST, listening=["a"])
    (operation,) = support.maintain(world, "h1")
    world.apply_fleet(without(ONE_HOST, "a"))
    assert support.seen(world, "c") == [("Scheduled", "Freeze", ["b"])]
    world.advance("15m")
    assert support.seen(world, "c") == [("Started", "Freeze", ["b"])]
    # While the driver works on a VM, it stays in the fleet.
    without_both = without(without(ONE_HOST, "a"), "b")
    with pytest.raises(RefusedError, match="cannot remove VM b: operation"):
        world.apply_fleet(without_both)
    world.advance("1m")
    assert support.seen(world, "c") == [("Started", "Freeze", ["b"])]
    world.apply_fleet(without_both)
    assert support.seen(world, "c") == []
    assert world.operation(operation.operation_id).state.value == "Done"


@pytest.mark.clause("2.5")
def test_event_without_remaining_vms_is_cancelled() -> None:
    world = make_world(listening=["web_1"])
    (operation,) = support.reboot(world, "web_0")
    world.apply_fleet(without(FLEET, "web_0"))
    assert support.seen(world, "web_1") == []
    assert world.operation(operation.operation_id).state.value == "Cancelled"


# 2.6 to 2.9


@pytest.mark.system
@pytest.mark.clause("2.6")
@each_check("2.6")
def test_status_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("2.6", "4.1")
def test_finished_event_is_not_listed() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    support.approve_all(world, "web_0")
    world.advance("11m")
    assert world.vm("web_0").get().events == []


@pytest.mark.system
@pytest.mark.clause("2.7")
@each_check("2.7")
def test_not_before_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("2.7")
def test_not_before_is_a_fixed_whole_second() -> None:
    world = make_world(listening=["web_0"], start=START + 400_000)
    support.reboot(world, "web_0")
    event = support.only_event(world, "web_0")
    assert event["NotBefore"] == "Tue, 01 Jan 2030 00:15:01 GMT"
    world.advance_to(START + 15 * 60_000_000 + 999_999)
    assert support.only_event(world, "web_0") == event
    world.advance_to(START + 15 * 60_000_000 + 1_000_000)
    started = support.only_event(world, "web_0")
    assert (started["EventStatus"], started["NotBefore"]) == ("Started", "")


@pytest.mark.system
@pytest.mark.clause("2.8")
@each_check("2.8")
def test_source_and_description_checks_pass(
    endpoint: ServedWorld, check: Check
) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("2.8")
def test_description_can_be_any_text() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0", description='New "fans" für h1 ✓')
    assert support.only_event(world, "web_0")["Description"] == 'New "fans" für h1 ✓'
    assert world.vm("web_0").get().body.isascii()


@pytest.mark.system
@pytest.mark.clause("2.9")
@each_check("2.9")
def test_duration_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("2.9")
@pytest.mark.parametrize(("said", "shown"), [(None, -1), (0, 0), (30, 30)])
def test_duration_is_the_requested_one_or_unknown(said: int | None, shown: int) -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0", duration_seconds=said)
    assert support.only_event(world, "web_0")["DurationInSeconds"] == shown


# 2.10


@pytest.mark.system
@pytest.mark.clause("2.10")
@each_check("2.10")
def test_incarnation_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.clause("2.10")
def test_transaction_raises_the_incarnation_once() -> None:
    world = make_world(ONE_HOST, listening=["a"])
    support.reboot(world, "a", "c")
    answer = world.vm("a").get()
    assert (answer.incarnation, len(answer.events)) == (2, 2)


@pytest.mark.clause("2.10")
def test_first_document_with_events_has_incarnation_two() -> None:
    world = make_world()
    support.maintain(world, "h1")
    answer = world.vm("web_0").get()
    assert (answer.incarnation, len(answer.events)) == (2, 1)


@pytest.mark.clause("2.10")
def test_an_approval_that_starts_nothing_changes_nothing() -> None:
    world = make_world(listening=["web_0", "db_0"])
    support.maintain(world, "h1")
    before = world.vm("web_0").get().body
    support.approve_all(world, "web_0")
    assert world.vm("web_0").get().body == before


@pytest.mark.clause("2.10", "1.5")
def test_hidden_event_raises_the_incarnation_and_is_not_shown() -> None:
    world = make_world(
        fleet(
            hosts=["h1"],
            scopes={"web": {**WEB, "terminate_notice": "5m"}},
            vms={"a": {"host": "h1", "scope": "web"}},
        ),
        listening=["a"],
    )
    support.terminate(world, "a")
    old, new = world.vm("a").get("2017-11-01"), world.vm("a").get()
    assert (old.incarnation, old.events) == (2, [])
    assert (new.incarnation, len(new.events)) == (2, 1)


def story(world: World) -> list[tuple[int, bytes]]:
    """Return what one VM is served at each step of a story."""
    bodies: list[tuple[int, bytes]] = []

    def look() -> None:
        answer = world.vm("web_0").get()
        bodies.append((answer.incarnation, answer.body))

    for step in (
        lambda: support.maintain(world, "h1"),
        lambda: world.advance("15m"),
        lambda: support.fail_host(world, "h2"),
        lambda: world.advance("20m"),
        lambda: support.restore_host(world, "h2"),
    ):
        step()
        look()
        look()
    return bodies


@pytest.mark.clause("2.10")
def test_incarnation_identifies_the_content_and_never_decreases() -> None:
    bodies = story(make_world(listening=["web_0"]))
    numbers = [number for number, _ in bodies]
    assert numbers == sorted(numbers)
    assert len(set(bodies)) == len(set(numbers)) == 5


@pytest.mark.clause("2.10")
def test_restart_keeps_the_incarnation(tmp_path: Path) -> None:
    with durable_world(tmp_path, listening=["web_0"]) as world:
        support.maintain(world, "h1")
        before = world.vm("web_0").get().body
        world.restart()
        assert world.vm("web_0").get().body == before
        world.advance("15m")
        assert world.vm("web_0").get().incarnation == 3


@pytest.mark.clause("2.10")
def test_vm_that_changes_its_scope_never_sees_a_lower_incarnation() -> None:
    text = fleet(
        hosts=["h1"],
        scopes={"one": WEB, "two": WEB},
        vms={
            "a": {"host": "h1", "scope": "one"},
            "b": {"host": "h1", "scope": "two"},
        },
    )
    world = make_world(text, listening=["a", "b"])
    for _ in range(3):
        (operation,) = support.reboot(world, "a")
        support.cancel(world, operation.operation_id)
    before = world.vm("a").get().incarnation
    assert before > world.vm("b").get().incarnation
    world.apply_fleet(
        text.replace(
            'name = "a"\nhost = "h1"\nscope = "one"',
            'name = "a"\nhost = "h1"\nscope = "two"',
        )
    )
    # Both documents are empty, so the number may stay; the next event raises it.
    assert world.vm("a").get().incarnation == before
    support.reboot(world, "b")
    assert world.vm("a").get().incarnation > before


def test_event_checks_are_not_tried_without_events() -> None:
    client = support.WorldClient(make_world(), "web_0")
    for number in range(2, 10):
        for check in support.checks_of(f"2.{number}"):
            assert isinstance(support.verdict_of(check, client), NotTried), check
