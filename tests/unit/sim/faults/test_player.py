"""The player of faults, without sockets."""

from dataclasses import dataclass, field

import pytest

from forewarn.instants import SECOND
from forewarn.metadata.http import Request
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.sim.faults import syntax
from forewarn.sim.faults.fault import Fault, FaultError
from forewarn.sim.faults.player import ENDED_KEPT, RULES_MAX, Player

EVENTS = "/metadata/scheduledevents"


@dataclass
class Table:
    """A player, and the requests to it."""

    seconds: int = 0
    player: Player = field(init=False)

    def __post_init__(self) -> None:
        self.player = Player(
            now=lambda: self.seconds * SECOND, vms={"web_0", "web_1", "web_2"}
        )

    def ask(self, vm: str = "web_0", method: str = "GET", path: str = EVENTS) -> str:
        plan = self.player.take(vm, Request(method=method, path=path))
        return "ok" if plan is None else plan.fault.kind

    def row(self, times: int, vm: str = "web_0") -> str:
        return " ".join(self.ask(vm) for _ in range(times))


def test_playbook_advances_with_each_request_and_ends_with_ok() -> None:
    table = Table()
    table.player.play(["500 x2", "timeout", "empty", "ok"])
    assert table.row(6) == "500 500 timeout empty ok ok"
    assert table.player.counts() == {"500": 2, "timeout": 1, "empty": 1}


def test_playbook_can_loop() -> None:
    table = Table()
    table.player.set("web_0", "500, ok, ok, loop")
    assert table.row(7) == "500 ok ok 500 ok ok 500"


def test_each_vm_plays_the_playbook_separately() -> None:
    table = Table()
    table.player.play(["500", "404"])
    assert table.row(3, "web_0") == "500 404 ok"
    assert table.row(3, "web_1") == "500 404 ok"
    assert table.player.counts("web_1") == {"500": 1, "404": 1}


def test_setting_a_fault_replaces_the_previous_one() -> None:
    table = Table()
    table.player.set("", "503")
    table.player.set("web_0", "500")
    assert table.row(2) == "500 500"
    assert table.row(1, "web_1") == "503"
    table.player.set("web_0", "404 x1")
    assert table.row(2) == "404 ok"
    table.player.set("", "410")
    assert table.row(1) == table.row(1, "web_1") == "410"
    assert len(table.player.listing()) == 1


def test_first_matching_playbook_wins() -> None:
    table = Table()
    table.player.play(syntax.parse_playbook("500 x1 post"))
    table.player.play(syntax.parse_playbook("empty x2", vms=["web_0"]))
    table.player.play(syntax.parse_playbook("404"))
    assert table.ask(method="POST") == "500"
    assert table.row(3) == "empty empty 404"
    assert table.ask(method="POST") == "404"
    assert table.row(1, "web_1") == "404"


def test_flapping_fault_affects_every_other_request() -> None:
    table = Table()
    table.player.set("web_0", "500 x3 flapping, 404")
    assert table.row(7) == "500 ok 500 ok 500 404 ok"


def test_fault_is_limited_to_its_time() -> None:
    table = Table()
    table.player.set("web_0", "500 after 10s for 20s")
    assert table.row(1) == "ok"
    table.seconds = 10
    assert table.row(2) == "500 500"
    table.seconds = 29
    assert table.row(1) == "500"
    table.seconds = 30
    assert table.row(1) == "ok"


def test_timed_steps_run_in_sequence() -> None:
    table = Table()
    table.player.set("web_0", "500 for 10s, ok for 10s, timeout after 5s, loop")
    outcomes = []
    for seconds in (0, 9, 10, 19, 20, 24, 25):
        table.seconds = seconds
        outcomes.append(table.ask())
    assert outcomes == ["500", "500", "ok", "ok", "ok", "ok", "timeout"]
    assert table.ask() == "500"
    table.seconds = 1_000_000
    assert table.ask() == "timeout"


def test_playbook_continues_after_a_jump_over_many_loops() -> None:
    table = Table()
    table.player.set("web_0", "500 for 1s, 404 for 1s, loop")
    table.seconds = 86_400
    assert table.ask() == "500"


def test_step_waits_for_a_matching_request() -> None:
    table = Table()
    table.player.set("web_0", "broken, 500 post, 404")
    assert table.ask(method="POST") == "ok"
    assert table.row(3) == "broken ok ok"
    assert table.ask(method="POST") == "500"
    assert table.row(2) == "404 ok"


def test_faults_apply_only_to_the_selected_paths() -> None:
    table = Table()
    instance = "/metadata/instance/compute/name"
    table.player.set("web_0", "500")
    assert table.ask(path="/Metadata/ScheduledEvents/") == "500"
    assert table.ask(path=instance) == table.ask(path="/x") == "ok"
    table.player.set("web_0", "500 on instance")
    assert table.ask() == "ok"
    assert table.ask(path=instance) == "500"
    table.player.set("web_0", "500 on all")
    assert table.ask() == table.ask(path=instance) == table.ask(path="/x") == "500"


def test_connection_is_refused_before_any_request() -> None:
    table = Table()
    table.player.set("web_0", "refuse x2, 500")
    first = table.player.connect("web_0")
    assert first is not None
    assert first.kind == "refuse"
    assert table.ask() == "refuse"
    assert table.player.connect("web_0") is None
    assert table.ask() == "500"
    assert table.player.connect("web_1") is None


def test_clearing_one_vm_keeps_the_faults_of_others() -> None:
    table = Table()
    name = table.player.play(["500 x9"])
    table.player.play(syntax.parse_playbook("404", vms=["web_1"]))
    table.player.clear("web_1")
    assert table.row(1, "web_1") == "ok"
    assert table.row(1) == "500"
    assert [rule.name for rule in table.player.listing()] == [name]


def test_listing_shows_the_configured_faults() -> None:
    table = Table()
    table.player.set("web_0", "delay 3s x2, 429 retry-after 7, loop")
    table.row(1)
    (listed,) = table.player.listing()
    assert listed.steps == ["delay 3s x2", "429 retry-after 7 x1"]
    assert listed.playbook.vms == ("web_0",)
    assert listed.playbook.loops
    assert listed.played == 1


def test_invalid_fault_changes_nothing() -> None:
    table = Table()
    table.player.set("web_0", "500")
    with pytest.raises(FaultError):
        table.player.set("web_0", "501")
    with pytest.raises(NotFoundError, match=r'"web_9" does not exist \(did you mean'):
        table.player.set("web_9", "404")
    assert table.row(1) == "500"


def test_number_of_playbooks_is_limited() -> None:
    table = Table()
    for _ in range(RULES_MAX):
        table.player.play(["500 on instance"])
    with pytest.raises(RefusedError, match="there are already"):
        table.player.play(["500"])


def test_finished_playbooks_are_removed_above_the_limit() -> None:
    table = Table()
    for _ in range(ENDED_KEPT):
        table.player.play(syntax.parse_playbook("500 x1", vms=["web_0"]))
    assert table.row(ENDED_KEPT + 1).count("500") == ENDED_KEPT
    assert len(table.player.listing()) == ENDED_KEPT
    name = table.player.play(syntax.parse_playbook("404 x1", vms=["web_0"]))
    assert [rule.name for rule in table.player.listing()] == [name]


def test_players_are_independent() -> None:
    one, other = Table(), Table()
    one.player.set("web_0", Fault(kind="500"))
    assert one.row(1) == "500"
    assert other.row(1) == "ok"
    one.player.clear()
    assert one.player.is_idle
