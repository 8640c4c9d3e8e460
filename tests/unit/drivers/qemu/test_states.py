"""The meaning of run states, and the news that follow from those of all hosts."""

import pytest

from forewarn.drivers.port import StopCause
from forewarn.drivers.qemu.states import (
    ELSEWHERE,
    HERE,
    Presence,
    ProcessState,
    Sightings,
    process_state,
    state_at_end,
    whereabouts,
)

DOWN = state_at_end(None)


@pytest.mark.parametrize(
    ("status", "presence"),
    [
        ("running", Presence.HERE),
        ("paused", Presence.HERE),
        ("finish-migrate", Presence.HERE),
        ("inmigrate", Presence.ELSEWHERE),
        ("postmigrate", Presence.ELSEWHERE),
        ("prelaunch", Presence.ELSEWHERE),
        ("shutdown", Presence.DOWN),
        ("guest-panicked", Presence.DOWN),
        ("io-error", Presence.DOWN),
    ],
)
def test_run_state_tells_whether_the_vm_is_here(
    status: str, presence: Presence
) -> None:
    assert process_state(status).presence is presence


@pytest.mark.parametrize(
    ("reason", "cause", "text"),
    [
        (None, StopCause.FAILED, "QEMU was killed or has crashed"),
        ("guest-shutdown", StopCause.SHUT_DOWN, "shut down from inside"),
        ("host-signal", StopCause.FAILED, "QEMU was ended (host-signal)"),
        ("host-qmp-quit", StopCause.FAILED, "QEMU was ended (host-qmp-quit)"),
    ],
)
def test_only_a_guest_that_shuts_itself_down_is_no_failure(
    reason: str | None, cause: StopCause, text: str
) -> None:
    state = state_at_end(reason)
    assert (state.presence, state.cause) == (Presence.DOWN, cause)
    assert text in state.text


@pytest.mark.parametrize(
    ("found", "unknown", "running", "host"),
    [
        ({"h1": HERE}, [], True, "h1"),
        ({"h1": DOWN, "h2": HERE}, [], True, "h2"),
        ({"h1": ELSEWHERE, "h2": HERE}, ["h3"], True, "h2"),
        ({"h1": DOWN}, ["h2"], None, ""),
        ({"h1": ELSEWHERE, "h2": DOWN}, [], False, "h2"),
        ({"h1": ELSEWHERE, "h2": ELSEWHERE}, [], None, ""),
        ({}, [], None, ""),
    ],
)
def test_vm_is_down_only_if_no_host_has_it_and_each_has_answered(
    found: dict[str, ProcessState], unknown: list[str], running: bool | None, host: str
) -> None:
    where = whereabouts(found, unknown=unknown)
    assert (where.running, where.host) == (running, host)


def test_news_of_a_migration_is_the_new_host_and_nothing_else() -> None:
    sightings = Sightings()
    first = sightings.note("web_0", "h1", HERE)
    assert first is not None
    assert (first.running, first.host) == (True, "h1")
    assert sightings.note("web_0", "h2", ELSEWHERE) is None
    assert sightings.note("web_0", "h1", ELSEWHERE) is None
    moved = sightings.note("web_0", "h2", HERE)
    assert moved is not None
    assert (moved.running, moved.host) == (True, "h2")
    sightings.forget("web_0", "h1")
    assert sightings.state_of("web_0", "h1") is None
    died = sightings.note("web_0", "h2", DOWN)
    assert died is not None
    assert (died.running, died.host) == (False, "h2")


def test_repeated_state_is_no_news() -> None:
    sightings = Sightings()
    assert sightings.note("web_0", "h1", HERE) is not None
    assert sightings.note("web_0", "h1", HERE) is None
    assert sightings.note("db_0", "h1", DOWN) is not None
    assert sightings.note("db_0", "h1", DOWN) is None
