"""The meaning of libvirt's states and events."""

import pytest

from forewarn.drivers.libvirt.worker import marks, states
from forewarn.drivers.libvirt.worker.orders import (
    ASKED,
    DONE,
    Mark,
    order_from,
    settings_from,
)
from forewarn.drivers.libvirt.worker.states import (
    DOWN,
    ELSEWHERE,
    HERE,
    OFF,
    STOPPED_TEXT,
    GuestState,
    Memory,
    guest_state,
    state_after_event,
)

RUNS, CRASHED, UNKNOWN = GuestState(HERE), guest_state(5, 3), guest_state(5, 0)


@pytest.mark.parametrize(
    ("state", "reason", "presence"),
    [
        (1, 1, HERE),
        (3, 1, HERE),  # paused by the API
        (3, 2, ELSEWHERE),  # waits for the memory of its guest
        (3, 5, DOWN),  # an error of its disk
        (3, 13, DOWN),  # post-copy failed
        (4, 0, ELSEWHERE),  # shuts down
        (5, 1, OFF),
        (5, 2, DOWN),
        (5, 4, ELSEWHERE),  # has migrated
        (5, 5, ELSEWHERE),  # is saved
        (5, 99, DOWN),
        (6, 0, DOWN),
        (7, 0, HERE),  # sleeps
    ],
)
def test_state_has_a_presence(state: int, reason: int, presence: str) -> None:
    assert guest_state(state, reason).presence == presence


@pytest.mark.parametrize(
    ("event", "detail", "presence"),
    [
        (states.STARTED, 0, HERE),
        (states.STARTED, states.STARTED_BY_MIGRATION, ELSEWHERE),
        (states.RESUMED, 1, HERE),
        (states.SUSPENDED, 2, DOWN),
        (states.STOPPED, 0, OFF),
        (states.STOPPED, 3, ELSEWHERE),
        (states.STOPPED, 5, DOWN),
        (states.STOPPED, 99, ELSEWHERE),
        (states.CRASHED, 0, DOWN),
    ],
)
def test_event_leaves_a_presence(event: int, detail: int, presence: str) -> None:
    state = state_after_event(event, detail)
    assert state is not None
    assert state.presence == presence


@pytest.mark.parametrize(
    ("event", "detail"), [(states.DEFINED, 0), (states.SUSPENDED, 0)]
)
def test_event_that_changes_nothing_is_no_news(event: int, detail: int) -> None:
    assert state_after_event(event, detail) is None


def test_killed_qemu_reads_the_same_in_the_state_and_in_the_event() -> None:
    """libvirt says CRASHED in the one and FAILED in the other."""
    assert (
        guest_state(5, 3)
        == guest_state(5, 6)
        == state_after_event(5, 2)
        == state_after_event(5, 5)
    )
    assert guest_state(5, 3).text == "QEMU was killed or has crashed"


def test_list_tells_what_runs_and_why_others_do_not() -> None:
    memory = Memory()
    states_by_vm = {
        "a": RUNS,
        "b": CRASHED,
        "c": guest_state(5, 5),
        "d": guest_state(5, 1),
    }
    assert memory.list(states_by_vm) == {
        "a": RUNS,
        "b": CRASHED,
        "d": guest_state(5, 1),
    }
    assert memory.list(states_by_vm) == {}


def test_vm_that_stopped_without_a_connection_has_failed() -> None:
    memory = Memory()
    memory.list({"a": RUNS})
    # After a restart of the host, libvirt knows no reason.
    assert memory.list({"a": UNKNOWN}) == {"a": GuestState(DOWN, STOPPED_TEXT)}


def test_vm_that_was_off_before_a_restart_of_libvirt_has_not_failed() -> None:
    memory = Memory()
    assert memory.list({"new": UNKNOWN}) == {"new": UNKNOWN}
    assert UNKNOWN.cause == "unknown"
    assert memory.list({"new": UNKNOWN}) == {}
    memory.observe("new", states.STOPPED, 0)
    assert memory.list({"new": UNKNOWN}) == {}


def test_vm_that_is_gone_can_be_elsewhere_and_is_no_news() -> None:
    memory = Memory()
    memory.list({"a": RUNS})
    assert memory.list({}) == {}


def test_guest_that_shut_itself_down_is_off() -> None:
    memory = Memory()
    memory.list({"a": RUNS})
    assert memory.observe("a", states.SHUTDOWN, 1) is None
    assert memory.observe("a", states.STOPPED, 0) == states.SHUT_DOWN_BY_USER
    assert memory.observe("a", states.STOPPED, 0) is None


def test_guest_whose_qemu_got_a_signal_has_failed() -> None:
    memory = Memory()
    memory.list({"a": RUNS})
    memory.observe("a", states.SHUTDOWN, states.SHUT_DOWN_BY_HOST)
    state = memory.observe("a", states.STOPPED, 0)
    assert state == GuestState(DOWN, "QEMU was ended by a signal")
    # The next time it shuts itself down.
    memory.observe("a", states.STARTED, 0)
    assert memory.observe("a", states.STOPPED, 0) == states.SHUT_DOWN_BY_USER


def test_migration_by_hand_tells_only_where_the_vm_arrives() -> None:
    source, destination = Memory(), Memory()
    source.list({"a": RUNS})
    assert destination.observe("a", states.STARTED, states.STARTED_BY_MIGRATION) is None
    assert destination.observe("a", states.RESUMED, 1) == RUNS
    assert source.observe("a", states.STOPPED, 3) is None
    assert source.observe("a", states.UNDEFINED, 0) is None


@pytest.mark.parametrize(
    ("detail", "how"), [(0, "undefined"), (states.RENAMED, "renamed")]
)
def test_domain_that_is_undefined_by_hand_is_told_with_the_earlier_reason(
    detail: int, how: str
) -> None:
    memory = Memory()
    memory.list({"a": RUNS})
    # A domain that runs continues without its definition.
    assert memory.observe("a", states.UNDEFINED, detail) is None
    memory.observe("a", states.STOPPED, 0)
    state = memory.observe("a", states.UNDEFINED, detail)
    assert state == GuestState(OFF, f"{states.SHUT_DOWN_TEXT}; its domain was {how}")


def test_mark_is_read_as_it_was_written() -> None:
    for mark in (
        Mark("op-1.1.stop", stop=ASKED),
        Mark('op-"<&.2.freeze', state=DONE),
    ):
        assert marks.mark_in(marks.element_of(mark)) == mark
    assert Mark("op-1.1.stop").operation == "op-1"


@pytest.mark.parametrize("text", ["", "<call", "<call/>", "<other/>"])
def test_element_without_a_name_is_no_mark(text: str) -> None:
    assert marks.mark_in(text) is None


def test_host_is_quoted_in_the_uri_and_has_its_exception() -> None:
    settings = settings_from(
        '{"uri": "qemu+ssh://root@{host}/system", "uris": {"h9": "qemu:///system"},'
        ' "peer_uri": "", "data_uri": "tcp://{host}", "migration": "pre-copy",'
        ' "freeze": 5, "shutdown": 60, "pause": "save", "connect": 20}'
    )
    assert settings.uri_of("h?1") == "qemu+ssh://root@h%3F1/system"
    assert settings.uri_of("h9") == settings.peer_uri_of("h9") == "qemu:///system"
    assert settings.data_uri_of("h1") == "tcp://h1"


def test_order_of_a_call_that_stays_has_no_destination() -> None:
    note = {"action": "freeze", "vm": "a", "host": "h1", "to_host": None}
    order = order_from({**note, "seconds": 5, "mark": "op-1.1.freeze"})
    assert (order.to_host, order.mark) == ("", Mark("op-1.1.freeze"))
