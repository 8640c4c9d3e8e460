"""The actions by QMP, where they do not go well, and work whose program was lost."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers import lines
from forewarn.drivers.marks import Mark, MarkState
from forewarn.drivers.port import HostVms
from forewarn.drivers.qemu import answers, processes, work
from forewarn.drivers.qemu.processes import MARK, process_of, write_mark
from forewarn.drivers.qemu.qmp import Monitor, MonitorError
from forewarn.drivers.qemu.work import UNKNOWN_STATUS, carry_out
from forewarn.drivers.records import DONE_STATUS, DOWN_STATUS, RUNS_STATUS
from forewarn.protocol.abilities import Able, answer_about
from forewarn.protocol.operations import Action
from tests.support.fake_qemu import FakeQemu
from tests.unit.drivers.qemu.living import Living, order_of

pytestmark = pytest.mark.system

MIGRATE = order_of(Action.LIVE_MIGRATE, to_host="h2")


@pytest.fixture
def living(tmp_path: Path) -> Living:
    return Living(tmp_path)


def mark_in(fake: FakeQemu) -> str:
    return str(fake.objects.get(MARK, {}).get("identity", ""))


# Output and marks


def test_call_of_an_earlier_term_changes_nothing(
    living: Living, capsys: pytest.CaptureFixture[str]
) -> None:
    """The former leader was paused until the next one has made a call."""

    async def story() -> None:
        fake = await living.start()
        newer = order_of(Action.RESUME)
        newer = replace(newer, mark=replace(newer.mark, term=8, store="a1"))
        assert await carry_out(living.places, newer) == DONE_STATUS
        late = order_of(Action.REBOOT)
        late = replace(late, mark=replace(late.mark, term=7, store="a1"))
        assert await carry_out(living.places, late) == RUNS_STATUS
        assert "system_reset" not in fake.commands
        assert mark_in(fake) == "op-1.1.resume done 8 a1"

    living.run(story())
    assert "a replica that leads in term 8 has made" in capsys.readouterr().out


def test_freeze_stops_the_guest_for_its_time_and_measures_it(
    living: Living, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        fake = await living.start()
        assert await carry_out(living.places, order_of(Action.FREEZE)) == DONE_STATUS
        assert fake.commands[-4:-1] == ["object-add", "stop", "cont"]
        assert (fake.status, mark_in(fake)) == ("running", "op-1.1.freeze done")

    living.run(story())
    output = capsys.readouterr().out
    assert 50 <= int(output.removeprefix("paused: ").removesuffix("ms\n")) < 10_000


def test_guest_that_was_paused_by_hand_stays_paused_after_a_freeze(
    living: Living, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        fake = await living.start()
        fake.status = "paused"
        assert await carry_out(living.places, order_of(Action.FREEZE)) == DONE_STATUS
        assert (fake.status, mark_in(fake)) == ("paused", "op-1.1.freeze done")

    living.run(story())
    assert capsys.readouterr().out == "web_0 was paused already, and stays paused\n"


def test_guest_that_an_interrupted_freeze_left_paused_runs_after_the_next(
    living: Living, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        fake = await living.start()
        fake.status = "paused"
        await begun(Action.FREEZE, living)
        assert await carry_out(living.places, order_of(Action.FREEZE)) == DONE_STATUS
        assert fake.status == "running"

    living.run(story())
    assert "paused: " not in capsys.readouterr().out


def test_freeze_is_not_longer_than_its_event_allows(tmp_path: Path) -> None:
    living = Living(tmp_path, freeze=600.0)

    async def story() -> None:
        await living.start()
        order = order_of(Action.FREEZE, seconds=0)
        assert await carry_out(living.places, order) == DONE_STATUS

    living.run(story())


def test_guest_is_asked_to_shut_down_before_it_is_reset(tmp_path: Path) -> None:
    living = Living(tmp_path, shutdown=30.0)

    async def story() -> None:
        fake = await living.start()
        assert await carry_out(living.places, order_of(Action.REBOOT)) == DONE_STATUS
        assert (fake.status, fake.when_shut_down) == ("running", "poweroff")
        assert fake.commands.index("system_powerdown") < fake.commands.index(
            "system_reset"
        )

    living.run(story())


def test_guest_that_ignores_the_power_button_is_reset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    living = Living(tmp_path, shutdown=0.05)

    async def story() -> None:
        fake = await living.start(ignores_power_button=True)
        assert await carry_out(living.places, order_of(Action.REBOOT)) == DONE_STATUS
        assert "system_reset" in fake.commands

    living.run(story())
    assert "did not shut down in time, and was reset" in capsys.readouterr().out


def test_qemu_ends_with_its_guest_again_after_a_reboot_that_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    living = Living(tmp_path, shutdown=30.0)

    async def story() -> None:
        fake = await living.start()
        fake.refused["system_reset"] = "no machine to reset"
        assert await carry_out(living.places, order_of(Action.REBOOT)) == DOWN_STATUS
        assert (fake.status, fake.when_shut_down) == ("shutdown", "poweroff")

    living.run(story())
    assert "no machine to reset" in capsys.readouterr().out


def test_migration_whose_destination_takes_no_mark_leaves_no_second_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    living = Living(tmp_path)

    async def refuse(monitor: Monitor, mark: Mark) -> None:
        if mark.state is MarkState.DONE:
            raise MonitorError("no answer")
        await write_mark(monitor, mark)

    monkeypatch.setattr(work, "write_mark", refuse)

    async def story() -> None:
        await living.start()
        assert await carry_out(living.places, MIGRATE) == RUNS_STATUS
        assert living.places.hosts_of("web_0") == ["h2"]

    living.run(story())
    for file in tmp_path.glob("*.pid"):
        os.kill(int(file.read_text()), signal.SIGKILL)


def test_two_guests_move_to_one_host_at_once(tmp_path: Path) -> None:
    living = Living(tmp_path, migration="tcp:127.0.0.1:0")
    orders = [replace(MIGRATE, vm=vm) for vm in ("web_0", "web_1")]

    async def story() -> None:
        for order in orders:
            await living.start(order.vm)
        results = await asyncio.gather(
            *(carry_out(living.places, order) for order in orders)
        )
        assert results == [DONE_STATUS, DONE_STATUS]
        for order in orders:
            assert living.places.hosts_of(order.vm) == ["h2"]

    living.run(story())
    for file in tmp_path.glob("*.pid"):
        os.kill(int(file.read_text()), signal.SIGKILL)


def test_migration_without_a_free_port_leaves_the_vm_on_its_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        living = Living(tmp_path, migration=f"tcp:127.0.0.1:{port},to={port}")

        async def story() -> None:
            fake = await living.start()
            assert await carry_out(living.places, MIGRATE) == RUNS_STATUS
            assert fake.status == "running"

        living.run(story())
    assert "Address already in use" in capsys.readouterr().out
    assert not list(tmp_path.glob("h2/*"))


# Failures


def test_work_on_a_dead_qemu_fails_and_tells_that_the_vm_is_down(
    living: Living,
) -> None:
    async def story() -> None:
        await (await living.start()).close()
        for action in (Action.FREEZE, Action.REBOOT, Action.PAUSE, Action.RESUME):
            assert await carry_out(living.places, order_of(action)) == DOWN_STATUS

    living.run(story())


def test_qemu_that_ends_during_a_freeze_is_noticed_at_once(tmp_path: Path) -> None:
    living = Living(tmp_path, freeze=600.0)

    async def story() -> None:
        fake = await living.start()
        frozen = asyncio.create_task(carry_out(living.places, order_of(Action.FREEZE)))
        await until(fake, "stop")
        await fake.close()
        assert await frozen == DOWN_STATUS

    living.run(story())


@pytest.mark.parametrize("is_answered", [True, False])
def test_guest_runs_again_if_the_freezing_program_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_answered: bool
) -> None:
    living = Living(tmp_path, freeze=600.0)

    async def story() -> None:
        fake = await living.start()
        send = fake.send

        def send_others(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
            if is_answered or fake.commands[-1:] != ["stop"] or "return" not in message:
                send(writer, message)

        monkeypatch.setattr(fake, "send", send_others)
        frozen = asyncio.create_task(carry_out(living.places, order_of(Action.FREEZE)))
        await until(fake, "stop")
        frozen.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await frozen
        assert fake.status == "running"

    living.run(story())


def test_monitor_of_another_client_makes_the_outcome_unknown(
    living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "ASK_SECONDS", 0.1)

    async def story() -> None:
        await living.start()
        async with process_of(living.places, "web_0", "h1"):
            probe = answers.probe(living.places, order_of(Action.PAUSE))
            assert await probe == (UNKNOWN_STATUS, "")

    living.run(story())


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (("/bin/sh", "-c", "echo no disk; exit 1"), "ended with status 1: no disk"),
        (("/none/start", "{vm}"), "/none/start: No such file or directory"),
        (("/bin/true",), "web_0 did not start on h2 within 0.2 s: no QEMU listens"),
        (("/bin/sleep", "60"), "must leave QEMU running in the background"),
    ],
)
def test_vm_that_cannot_be_started_elsewhere_is_down(
    tmp_path: Path,
    start: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "START_SECONDS", 0.2)
    living = Living(tmp_path, start=start)

    async def story() -> None:
        await living.start()
        order = order_of(Action.REDEPLOY, to_host="h2")
        assert await carry_out(living.places, order) == DOWN_STATUS

    living.run(story())
    assert said in capsys.readouterr().out


def test_migration_that_cannot_begin_leaves_the_vm_on_its_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    living = Living(tmp_path, receive=("/bin/false",))

    async def story() -> None:
        fake = await living.start()
        assert await carry_out(living.places, MIGRATE) == RUNS_STATUS
        assert (fake.status, mark_in(fake)) == ("running", "op-1.1.live-migrate failed")

    living.run(story())
    assert "vm-host: h1" in capsys.readouterr().out


def test_vm_is_never_migrated_onto_a_running_one(living: Living) -> None:
    async def story() -> None:
        await living.start()
        other = await living.start(host="h2")
        assert await carry_out(living.places, MIGRATE) == RUNS_STATUS
        assert other.status == "running"

    living.run(story())


# Work whose program was lost


def begun(action: Action, living: Living, host: str = "h1") -> Awaitable[None]:
    """Leave the mark of a call that has begun."""

    async def leave() -> None:
        async with process_of(living.places, "web_0", host) as monitor:
            await write_mark(monitor, order_of(action).mark)

    return leave()


@pytest.mark.parametrize(
    ("action", "status"),
    [
        (Action.FREEZE, RUNS_STATUS),
        (Action.PAUSE, RUNS_STATUS),
        (Action.REBOOT, UNKNOWN_STATUS),
        (Action.DELETE, RUNS_STATUS),
        (Action.STOP, RUNS_STATUS),
    ],
)
def test_begun_work_is_repeated_unless_that_restarts_the_guest_twice(
    living: Living, action: Action, status: int
) -> None:
    async def story() -> None:
        fake = await living.start()
        fake.status = "paused"
        await begun(action, living)
        assert (await answers.probe(living.places, order_of(action)))[0] == status
        assert fake.status == ("running" if action is Action.FREEZE else "paused")

    living.run(story())


@pytest.mark.parametrize(
    ("state", "status"),
    [(MarkState.DONE, DONE_STATUS), (MarkState.FAILED, RUNS_STATUS)],
)
def test_ended_work_is_known_by_its_mark(
    living: Living, state: MarkState, status: int
) -> None:
    async def story() -> None:
        await living.start()
        order = order_of(Action.REBOOT)
        async with process_of(living.places, "web_0", "h1") as monitor:
            await write_mark(monitor, replace(order.mark, state=state))
        assert await answers.probe(living.places, order) == (status, "vm-host: h1")

    living.run(story())


def test_mark_of_other_work_or_of_others_proves_nothing(living: Living) -> None:
    async def story() -> None:
        fake = await living.start()
        probe = answers.probe(living.places, order_of(Action.REBOOT))
        assert (await probe)[0] == UNKNOWN_STATUS
        await begun(Action.FREEZE, living)
        probe = answers.probe(living.places, order_of(Action.REBOOT))
        assert (await probe)[0] == UNKNOWN_STATUS
        fake.objects[MARK]["identity"] = "CN=somebody"
        probe = answers.probe(living.places, order_of(Action.REBOOT))
        assert (await probe)[0] == UNKNOWN_STATUS

    living.run(story())


def test_unfinished_migration_is_called_off(living: Living) -> None:
    async def story() -> None:
        source = await living.start()
        destination = await living.start(host="h2", incoming=True)
        source.migration = {"status": "active"}
        assert await answers.probe(living.places, MIGRATE) == (
            RUNS_STATUS,
            "vm-host: h1",
        )
        assert source.migration["status"] == "cancelled"
        assert "quit" in destination.commands

    living.run(story())


def test_migration_that_was_complete_is_done_and_its_source_ends(
    living: Living,
) -> None:
    async def story() -> None:
        source = await living.start()
        source.status = "postmigrate"
        await living.start(host="h2")
        assert await answers.probe(living.places, MIGRATE) == (
            DONE_STATUS,
            "vm-host: h2",
        )
        assert "quit" in source.commands

    living.run(story())


def test_vm_that_is_nowhere_is_unknown(living: Living) -> None:
    async def story() -> None:
        assert await answers.probe(living.places, MIGRATE) == (UNKNOWN_STATUS, "")
        assert await answers.observe(living.places, {"web_0": ()}) == []
        assert await answers.marks(living.places, {"web_0": ()}) == []

    living.run(story())


def test_vm_that_does_not_run_is_observed_so(living: Living) -> None:
    async def story() -> None:
        await (await living.start()).close()
        [line] = await answers.observe(living.places, {"web_0": ["h1"], "db_0": ()})
        assert json.loads(line) == {"vm": "web_0", "running": False}
        stopped = await answers.probe(living.places, order_of(Action.STOP))
        assert stopped == (DONE_STATUS, "")
        frozen = await answers.probe(living.places, order_of(Action.FREEZE))
        assert frozen == (DOWN_STATUS, "")

    living.run(story())


async def until(fake: FakeQemu, command: str) -> None:
    """Return when a command has come."""
    async with asyncio.timeout(30):
        while command not in fake.commands:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


# Abilities


def test_vm_whose_device_blocks_migrations_cannot_be_live_migrated(
    living: Living,
) -> None:
    async def story() -> None:
        fake = await living.start()
        fake.blocked = ["0000:3b:00.0: VFIO migration is not supported in kernel"]
        await living.start(vm="web_1")
        question = HostVms(host="h1", vms=("web_0", "web_1", "web_2"))
        # A host without VMs is answered too: otherwise it would be asked again and again.
        questions = [(question.host, [*question.vms]), ("h2", [])]
        messages = await answers.abilities(living.places, questions)
        empty = HostVms(host="h2", vms=())
        assert set(lines.abilities_in("\n".join(messages), [empty])) == {"h2"}
        abilities = lines.abilities_in("\n".join(messages), [question])["h1"]
        move = Action.LIVE_MIGRATE
        answer_by_vm = {vm: answer_about(abilities, move, vm) for vm in question.vms}
        assert {vm: answer.able for vm, answer in answer_by_vm.items()} == {
            "web_0": Able.NO,
            "web_1": Able.YES,
            "web_2": Able.UNKNOWN,
        }
        assert "VFIO migration is not supported" in answer_by_vm["web_0"].reason
        assert "web_2" in answer_by_vm["web_2"].reason
        assert answer_about(abilities, Action.FREEZE, "web_0").able is Able.YES

    living.run(story())


def test_questions_about_abilities_that_are_not_valid_are_ignored() -> None:
    messages = ['{"host": "h1", "vms": ["a"]}', "no JSON", '{"vms": []}']
    assert list(answers.hosts_in(messages)) == [("h1", ["a"])]
