"""The actions on a VM of libvirt, with their failures."""

import threading
from pathlib import Path

import pytest

from forewarn.drivers.libvirt.worker import actions, moving
from forewarn.drivers.libvirt.worker.disks import NAMESPACE, PREFIX
from forewarn.drivers.libvirt.worker.orders import (
    ASKED,
    DONE_STATUS,
    DOWN_STATUS,
    RUNS_STATUS,
    STOPPED,
    UNKNOWN_STATUS,
)
from tests.support.fake_libvirt.libvirt import PAUSED, RUNNING, SHUTOFF
from tests.support.processes import eventually
from tests.unit.drivers.libvirt.living import Living

BY_GUEST = [SHUTOFF, 1]


@pytest.fixture
def living(tmp_path: Path) -> Living:
    living = Living(tmp_path)
    living.libvirts.start("web_0", "h1")
    return living


def shut_down(living: Living) -> None:
    living.libvirts.domain("web_0", "h1").shutdown()


# Freeze, pause and resume


def test_freeze_stops_the_guest_and_measures_the_time(living: Living) -> None:
    status, [said] = living.do("freeze")
    assert (status, living.state()[0]) == (DONE_STATUS, RUNNING)
    assert living.mark() == ("op-1.1.freeze", "done")
    assert 10 <= int(said.removeprefix("paused: ").removesuffix("ms")) < 10_000


def test_freeze_is_not_longer_than_its_event_allows(tmp_path: Path) -> None:
    living = Living(tmp_path, freeze=600.0)
    living.libvirts.start("web_0", "h1")
    assert living.do("freeze", seconds=0)[0] == DONE_STATUS


def test_freeze_that_is_stopped_resumes_the_guest(living: Living) -> None:
    living.stop.set()
    status, said = living.do("freeze")
    assert (status, living.state()[0]) == (RUNS_STATUS, RUNNING)
    assert said == ["the freeze was stopped early", "vm-host: h1"]
    assert living.mark() == ("op-1.1.freeze", "failed")


def test_guest_is_resumed_although_the_connection_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "AGAIN_SECONDS", 0.02)
    living = Living(tmp_path, freeze=0.3)
    living.libvirts.start("web_0", "h1")
    result: list[int] = []
    thread = threading.Thread(target=lambda: result.append(living.do("freeze")[0]))
    thread.start()
    eventually(living.state, lambda state: state[0] == PAUSED)
    file = living.libvirts.fault("h1", "down")
    threading.Timer(0.6, file.unlink).start()
    thread.join()
    assert (result, living.state()[0]) == ([DONE_STATUS], RUNNING)


def test_host_that_is_away_fails_the_call_and_says_so(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "RESUME_SECONDS", 0.0)
    living.libvirts.fault("h1", "down")
    status, said = living.do("freeze")
    assert status == UNKNOWN_STATUS
    assert said == ["h1 cannot be reached: unable to connect to h1"]


def test_host_that_hangs_is_given_up(tmp_path: Path) -> None:
    living = Living(tmp_path, connect=0.05)
    living.libvirts.start("web_0", "h1")
    file = living.libvirts.fault("h1", "hang")
    status, [said] = living.do("reboot")
    file.unlink()
    assert status == UNKNOWN_STATUS
    assert said.startswith("h1 did not answer within 0.05 s (fake:///")


def test_guest_that_somebody_paused_by_hand_is_not_resumed(living: Living) -> None:
    living.libvirts.domain("web_0", "h1").suspend()
    status, said = living.do("freeze")
    assert (status, said[0]) == (RUNS_STATUS, "web_0 is paused already, by hand")
    assert living.state()[0] == PAUSED


def test_guest_that_ends_during_a_freeze_is_no_success(tmp_path: Path) -> None:
    living = Living(tmp_path, freeze=600.0)
    living.libvirts.start("web_0", "h1")
    result: list[tuple[int, list[str]]] = []
    thread = threading.Thread(target=lambda: result.append(living.do("freeze")))
    thread.start()
    eventually(living.state, lambda state: state[0] == PAUSED, what="the freeze")
    living.libvirts.domain("web_0", "h1").crash()
    living.stop.set()
    thread.join()
    [(status, said)] = result
    assert (status, said[0]) == (
        DOWN_STATUS,
        "web_0 has ended during the freeze: QEMU was killed or has crashed",
    )


def test_freeze_is_repeated_after_one_that_left_the_guest_paused(
    living: Living,
) -> None:
    living.leave("freeze")
    living.libvirts.domain("web_0", "h1").suspend()
    assert living.do("freeze", operation="op-1.2")[0] == DONE_STATUS
    assert living.state()[0] == RUNNING


@pytest.mark.parametrize("pause", ["save", "suspend"])
def test_memory_is_kept_between_the_halves_of_a_freeze(
    tmp_path: Path, pause: str
) -> None:
    living = Living(tmp_path, pause=pause)
    living.libvirts.start("web_0", "h1")
    for operation in ("op-1.1", "op-1.2"):
        assert living.do("pause", operation=operation) == (DONE_STATUS, [])
        state = [SHUTOFF, 5] if pause == "save" else [PAUSED, 1]
        assert living.state() == state
    for operation in ("op-1.3", "op-1.4"):
        assert living.do("resume", operation=operation) == (DONE_STATUS, [])
        assert living.state()[0] == RUNNING
    assert living.mark() == ("op-1.4.resume", "done")


def test_memory_of_a_vm_without_a_definition_cannot_be_saved(living: Living) -> None:
    living.libvirts.domain("web_0", "h1").undefineFlags(0)
    status, said = living.do("pause")
    assert status == RUNS_STATUS
    assert "web_0 has no persistent domain, so its memory cannot be saved" in said[0]
    assert living.state()[0] == RUNNING


# Reboot, stop and start


def test_guest_that_shuts_down_is_started_again(living: Living) -> None:
    assert living.do("reboot") == (DONE_STATUS, [])
    assert (living.state(), living.mark()) == ([RUNNING, 1], ("op-1.1.reboot", "done"))


def test_guest_that_does_not_shut_down_is_ended_after_its_time(tmp_path: Path) -> None:
    living = Living(tmp_path, shutdown=0.05)
    living.libvirts.start("web_0", "h1")
    living.libvirts.set("web_0", "h1", obeys=False)
    lines = ["web_0 did not shut down in time, and was ended"]
    assert living.do("reboot") == (DONE_STATUS, lines)
    assert living.state()[0] == RUNNING


def test_guest_is_not_asked_without_a_time_to_shut_down(tmp_path: Path) -> None:
    living = Living(tmp_path, shutdown=0)
    living.libvirts.start("web_0", "h1")
    assert living.do("reboot") == (DONE_STATUS, [])


@pytest.mark.parametrize("obeys", [True, False])
def test_guest_without_a_definition_restarts_in_its_process(
    tmp_path: Path, *, obeys: bool
) -> None:
    living = Living(tmp_path, shutdown=1.0 if obeys else 0.05)
    living.libvirts.start("web_0", "h1")
    living.libvirts.set("web_0", "h1", obeys=obeys)
    living.libvirts.domain("web_0", "h1").undefineFlags(0)
    lines = [] if obeys else ["web_0 did not restart in time, and was reset"]
    assert living.do("reboot") == (DONE_STATUS, lines)
    assert living.state()[0] == RUNNING


@pytest.mark.parametrize("action", ["freeze", "pause", "reboot", "stop"])
def test_vm_that_its_user_shut_down_stays_off(living: Living, action: str) -> None:
    shut_down(living)
    lines = ["web_0 did not run before, and stays so"]
    assert living.do(action) == (DONE_STATUS, lines)
    assert living.state() == BY_GUEST
    # The second half does not start it either, even after a restart of the host.
    living.libvirts.set("web_0", "h1", reason=0)
    for half in ("resume", "start"):
        assert living.do(half, operation="op-1.2") == (DONE_STATUS, lines)
    assert living.state() == [SHUTOFF, 0]


def test_vm_whose_qemu_was_killed_is_started_by_a_reboot(living: Living) -> None:
    living.libvirts.domain("web_0", "h1").crash()
    assert living.do("reboot") == (DONE_STATUS, [])
    assert living.state()[0] == RUNNING


def test_reboot_goes_on_after_its_program_was_lost(living: Living) -> None:
    living.leave("reboot", stop="asked")
    shut_down(living)
    assert living.do("reboot", operation="op-1.2") == (DONE_STATUS, [])
    assert living.state()[0] == RUNNING


@pytest.mark.parametrize("mark", [{}, {"state": "failed"}])
def test_guest_that_a_lost_call_stopped_is_started_by_another_operation(
    living: Living, mark: dict[str, str]
) -> None:
    living.leave("reboot", stop=ASKED if not mark else STOPPED, **mark)
    shut_down(living)
    assert living.do("reboot", operation="op-2.1") == (DONE_STATUS, [])
    assert living.state()[0] == RUNNING


def test_guest_that_its_user_shut_down_after_a_failed_call_stays_off(
    living: Living,
) -> None:
    # The call failed while the guest ran.
    living.leave("reboot", stop=ASKED, state="failed")
    shut_down(living)
    living.do("reboot", operation="op-2.1")
    assert living.state() == BY_GUEST


def test_failure_after_the_stop_of_the_guest_is_in_its_mark(living: Living) -> None:
    living.leave("reboot", stop=ASKED)
    shut_down(living)
    # Another process starts no VM whose disk is missing.
    note = "<disks><disk path='/web' pool='gone'>&lt;volume/&gt;</disk></disks>"
    domain = living.domains.need("web_0", "h1")
    living.domains.write_metadata(domain, note, prefix=PREFIX, namespace=NAMESPACE)
    assert living.do("reboot", operation="op-1.2")[0] == DOWN_STATUS
    mark = living.domains.read_mark(domain)
    assert mark is not None
    assert (mark.stop, mark.state) == (STOPPED, "failed")


def test_stopped_vm_is_started_by_the_second_half(living: Living) -> None:
    assert living.do("stop") == (DONE_STATUS, [])
    assert living.do("stop", operation="op-1.2") == (DONE_STATUS, [])
    # The host was restarted meanwhile.
    living.libvirts.set("web_0", "h1", reason=0)
    assert living.do("start", operation="op-1.3") == (DONE_STATUS, ["vm-host: h1"])
    assert living.do("start", operation="op-1.4") == (DONE_STATUS, ["vm-host: h1"])
    assert living.state()[0] == RUNNING


def test_vm_without_a_definition_is_not_stopped(living: Living) -> None:
    living.libvirts.domain("web_0", "h1").undefineFlags(0)
    status, said = living.do("stop")
    assert (status, living.state()[0]) == (RUNS_STATUS, RUNNING)
    assert said[0] == (
        "web_0 has no persistent domain, so it could not be started again"
    )


# Delete


def test_deleted_vm_is_gone_and_can_be_deleted_again(living: Living) -> None:
    assert living.do("delete") == (DONE_STATUS, [])
    assert not living.has("h1")
    assert living.do("delete", operation="op-1.2") == (DONE_STATUS, [])


# Domains that are changed by hand


@pytest.mark.parametrize("how", ["undefine", "rename"])
def test_domain_that_is_not_there_is_named_in_the_failure(
    living: Living, how: str
) -> None:
    shut_down(living)
    domain = living.libvirts.domain("web_0", "h1")
    if how == "rename":
        domain.rename("web_x", 0)
    else:
        domain.undefineFlags(0)
    status, said = living.do("reboot")
    assert status == UNKNOWN_STATUS
    assert "\n".join(said) == (
        "h1 has no domain web_0: it was undefined, renamed or moved by hand; "
        "`virsh list --all` on h1 shows the domains"
    )


# Moves


@pytest.mark.parametrize("kind", ["pre-copy", "auto-converge"])
def test_running_vm_moves_with_its_measured_downtime(tmp_path: Path, kind: str) -> None:
    living = Living(tmp_path, migration=kind, data_uri="tcp://{host}")
    living.libvirts.start("web_0", "h1")
    assert living.do("live-migrate", to_host="h2") == (
        DONE_STATUS,
        ["paused: 17ms", "vm-host: h2"],
    )
    assert (living.has("h1"), living.state("h2")[0]) == (False, RUNNING)
    assert living.mark("h2") == ("op-1.1.live-migrate", "done")
    # The call was lost, and is made again.
    again = living.do("live-migrate", operation="op-1.2", to_host="h2")
    assert again == (DONE_STATUS, ["vm-host: h2"])


def test_post_copy_begins_when_the_memory_was_copied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "JOB_SECONDS", 0.05)
    living = Living(tmp_path, migration="post-copy")
    living.libvirts.start("web_0", "h1")
    living.libvirts.fault("h1", "slow")
    assert living.do("live-migrate", to_host="h2")[0] == DONE_STATUS
    assert (tmp_path / "h1" / "post-copied").exists()


def test_vm_that_is_off_moves_without_memory(living: Living) -> None:
    shut_down(living)
    assert living.do("live-migrate", to_host="h2") == (DONE_STATUS, ["vm-host: h2"])
    assert (living.has("h1"), living.state("h2")) == (False, BY_GUEST)


def test_vm_that_has_crashed_does_not_migrate(living: Living) -> None:
    living.libvirts.domain("web_0", "h1").crash()
    status, said = living.do("live-migrate", to_host="h2")
    assert status == DOWN_STATUS
    assert said == ["web_0 does not run on h1: QEMU was killed or has crashed"]


def test_migration_to_a_host_that_is_away_leaves_the_vm(living: Living) -> None:
    file = living.libvirts.fault("h2", "down")
    status, said = living.do("live-migrate", to_host="h2")
    assert (status, living.state()[0]) == (UNKNOWN_STATUS, RUNNING)
    assert said == ["h1: unable to connect to h2"]
    file.unlink()
    assert living.do("live-migrate", to_host="h2")[0] == DONE_STATUS


def test_migration_that_is_stopped_is_called_off(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "JOB_SECONDS", 0.02)
    living.libvirts.fault("h1", "slow")
    result: list[tuple[int, list[str]]] = []
    thread = threading.Thread(
        target=lambda: result.append(living.do("live-migrate", to_host="h2"))
    )
    thread.start()
    domain = living.libvirts.domain("web_0", "h1")
    eventually(lambda: domain.jobInfo()[0], bool)
    living.stop.set()
    thread.join()
    [(status, said)] = result
    assert (status, living.state()[0], living.has("h2")) == (
        RUNS_STATUS,
        RUNNING,
        False,
    )
    assert said[0] == "h1: operation aborted: canceled by client"


def test_migration_that_was_lost_sight_of_has_its_true_outcome(living: Living) -> None:
    living.libvirts.fault("h1", "lose-migration")
    status, said = living.do("live-migrate", to_host="h2")
    assert (status, said[-1]) == (DONE_STATUS, "vm-host: h2")


def test_migration_whose_outcome_nobody_can_tell_is_unknown(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "JOB_SECONDS", 0.02)
    monkeypatch.setattr(moving, "SETTLE_SECONDS", 0.1)
    slow = living.libvirts.fault("h1", "slow")
    living.libvirts.fault("h1", "lose-migration")
    result: list[tuple[int, list[str]]] = []
    thread = threading.Thread(
        target=lambda: result.append(living.do("live-migrate", to_host="h2"))
    )
    thread.start()
    domain = living.libvirts.domain("web_0", "h1")
    eventually(lambda: domain.jobInfo()[0], bool)
    # Both hosts are away before the end of the migration is reported.
    files = [living.libvirts.fault(host, "down") for host in ("h1", "h2")]
    slow.unlink()
    thread.join()
    [(status, said)] = result
    assert status == UNKNOWN_STATUS
    assert said[0].startswith("the outcome of the migration is unknown: ")
    for file in files:
        file.unlink()


@pytest.mark.parametrize("is_persistent", [True, False])
def test_redeployed_vm_starts_on_the_other_host(
    living: Living, *, is_persistent: bool
) -> None:
    if not is_persistent:
        living.leave("freeze")
        living.libvirts.domain("web_0", "h1").undefineFlags(0)
    lines = ["vm-host: h2"]
    assert living.do("redeploy", to_host="h2") == (DONE_STATUS, lines)
    assert (living.has("h1"), living.state("h2")[0]) == (False, RUNNING)
    assert living.libvirts.domain("web_0", "h2").isPersistent() == is_persistent
    assert living.mark("h2") == ("op-1.1.redeploy", "done")
    again = living.do("redeploy", operation="op-1.2", to_host="h2")
    assert again == (DONE_STATUS, lines)


@pytest.mark.parametrize("stop", [ASKED, ""])
@pytest.mark.parametrize("has_moved", [True, False])
def test_redeployment_goes_on_after_its_program_was_lost(
    living: Living, stop: str, *, has_moved: bool
) -> None:
    living.leave("redeploy", stop=stop)
    shut_down(living)
    if has_moved:
        domain = living.libvirts.domain("web_0", "h1")
        living.libvirts.host("h2").defineXML(domain.XMLDesc(2))
        domain.undefineFlags(0)
    again = living.do("redeploy", operation="op-1.2", to_host="h2")
    assert again == (DONE_STATUS, ["vm-host: h2"])
    # One that was off before stays off.
    assert living.state("h2")[0] == (RUNNING if stop else SHUTOFF)


def test_redeployed_vm_that_is_off_stays_off(living: Living) -> None:
    shut_down(living)
    assert living.do("redeploy", to_host="h2") == (DONE_STATUS, ["vm-host: h2"])
    assert (living.has("h1"), living.state("h2")[0]) == (False, SHUTOFF)


def test_vm_with_saved_memory_is_not_redeployed(living: Living) -> None:
    living.libvirts.domain("web_0", "h1").managedSave(0)
    status, said = living.do("redeploy", to_host="h2")
    assert (status, living.state()) == (UNKNOWN_STATUS, [SHUTOFF, 5])
    assert said == ["web_0 has saved memory on h1: start it first"]


def test_old_definition_on_the_other_host_is_not_started(living: Living) -> None:
    living.libvirts.host("h2").defineXML("<domain><name>web_0</name></domain>")
    living.do("delete")
    status, said = living.do("redeploy", operation="op-2.1", to_host="h2")
    assert (status, living.state("h2")[0]) == (DOWN_STATUS, SHUTOFF)
    assert "is not from this operation" in said[0]
