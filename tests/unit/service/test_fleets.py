"""Large fleet files: read by another process, applied in one transaction."""

import asyncio
import contextlib
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.control.requests import fleet_changes
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Vm, VmState
from forewarn.problems import PROBLEMS_MAX
from forewarn.protocol.actors import CLOCK, operator
from forewarn.protocol.errors import RefusedError
from forewarn.service import limits, planning
from forewarn.service.assembly import Service
from forewarn.service.fleets import Planning, PlanningError
from forewarn.service.settings import load_settings
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.store.snapshot import reading
from tests.support.loops import in_loop

FLEET = """\
[[host]]
name = "h1"
[[host]]
name = "h2"
[[vm]]
name = "web_0"
host = "h1"
[[vm]]
name = "web_1"
host = "h1"
"""
NEW = FLEET + '[[vm]]\nname = "web_2"\nhost = "h2"\n'
OPERATOR = Who(actor=operator("test"), reason="more of them")


@pytest.fixture(autouse=True)
def every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another process read even small files."""
    monkeypatch.setattr(limits, "READ_HERE_CHARACTERS_MAX", 0)


def of(text: str) -> FleetText:
    return FleetText(name="fleet.toml", text=text)


@contextlib.asynccontextmanager
async def running(
    directory: Path,
    fleet: str = FLEET,
    flags: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
) -> AsyncGenerator[Service]:
    settings = load_settings(
        file=file,
        environ={},
        flags={
            "metadata.listen": "",
            "admin.listen": "127.0.0.1:0",
            "store.url": f"sqlite:///{directory / 'f.db'}",
            **(flags or {}),
        },
    )
    service = Service(settings)
    await service.start(fleet=of(fleet))
    try:
        yield service
    finally:
        await service.stop()


async def vms_of(service: Service) -> dict[str, Vm]:
    return await service.gateway.read(
        lambda reader: {vm.name: vm for vm in every(reader, kinds.ALL_VMS)}
    )


@in_loop
async def test_a_large_file_is_counted_planned_and_applied(tmp_path: Path) -> None:
    async with running(tmp_path) as service:
        assert sorted(await vms_of(service)) == ["web_0", "web_1"]
        counts = await service.gateway.count_fleet(of(NEW))
        assert counts == {"tenants": 1, "scopes": 3, "hosts": 2, "vms": 3}
        planned = await service.gateway.merge_fleet(of(NEW), who=None)
        assert list(planned.lines()) == ["+ vm web_2 on h2 (its own scope)"]
        assert "web_2" not in await vms_of(service)
        done = await service.gateway.merge_fleet(of(NEW), who=OPERATOR)
        assert list(done.lines()) == list(planned.lines())
        assert (await vms_of(service))["web_2"].view == "web_2"
        assert "web_2" in service.endpoint.directory.by_vm
        again = await service.gateway.merge_fleet(of(NEW), who=OPERATOR)
        assert again.is_empty


@in_loop
async def test_problems_of_a_large_file_are_reported(tmp_path: Path) -> None:
    many = FLEET + "".join(
        f'[[vm]]\nname = "x{number}"\nhost = "h9"\n'
        for number in range(PROBLEMS_MAX + 1)
    )
    async with running(tmp_path) as service:
        for who in (None, OPERATOR):
            with pytest.raises(
                FleetFileError, match=r"fleet\.toml:13: vm\.host"
            ) as one:
                await service.gateway.merge_fleet(of(many), who=who)
            assert one.value.message.endswith(f"these are the first {PROBLEMS_MAX}")
            assert len(one.value.problems) == PROBLEMS_MAX
        with pytest.raises(FleetFileError, match="this is not TOML"):
            await service.gateway.count_fleet(of("["))
        # Conflicts with the stored fleet have a line too.
        await service.gateway.order(OPERATOR, lambda work: _fall(work, "h2"))
        with pytest.raises(RefusedError, match="the host is down"):
            await service.gateway.merge_fleet(of(NEW), who=OPERATOR)
        assert sorted(await vms_of(service)) == ["web_0", "web_1"]


@in_loop
async def test_empty_file_is_refused_in_either_process(tmp_path: Path) -> None:
    empty = of("# nothing\n")
    async with running(tmp_path) as service:
        for who in (None, OPERATOR):
            with pytest.raises(RefusedError, match="the fleet file is empty") as one:
                await service.gateway.merge_fleet(empty, who=who)
            assert "--allow-empty" in one.value.hint
        assert sorted(await vms_of(service)) == ["web_0", "web_1"]
        meant = replace(empty, may_be_empty=True)
        done = await service.gateway.merge_fleet(meant, who=OPERATOR)
        assert "- vm web_0" in done.lines()
        assert await vms_of(service) == {}


def _fall(work: Work, name: str) -> Host:
    host = work.host(name)
    return work.tx.replace(host, replace(host, state=HostState.DOWN))


def write_after_the_first_plan(
    monkeypatch: pytest.MonkeyPatch, service: Service, decide: Callable[[Work], object]
) -> list[str]:
    """Return a planner during whose work another request is executed."""
    threads: list[str] = []
    loop = asyncio.get_running_loop()
    original = Planning.plan

    def plan(self: Planning) -> MergePlan:
        threads.append(threading.current_thread().name)
        merge_plan = original(self)
        if len(threads) == 1:
            order = service.gateway.order(OPERATOR, decide)
            asyncio.run_coroutine_threadsafe(order, loop).result()
        return merge_plan

    monkeypatch.setattr(Planning, "plan", plan)
    return threads


@in_loop
async def test_changes_during_planning_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def goes_on(work: Work) -> None:
        _fall(work, "h1")
        vm = work.vm("web_0")
        work.tx.replace(vm, replace(vm, state=VmState.DOWN))

    async with running(tmp_path) as service:
        threads = write_after_the_first_plan(monkeypatch, service, goes_on)
        text = FLEET.replace('"web_0"\n', '"web_0"\nsize = "big"\n').replace(
            '"h1"\n[', '"h1"\ncapacity = 9\n[', 1
        )
        await service.gateway.merge_fleet(of(text), who=OPERATOR)
        assert len(threads) == 1
        vm = (await vms_of(service))["web_0"]
        assert (vm.size, vm.state) == ("big", VmState.DOWN)
        host = await service.gateway.read(lambda reader: reader.get(Host, "h1"))
        assert host is not None
        assert (host.capacity, host.state) == (9, HostState.DOWN)


@in_loop
async def test_stale_plan_is_recomputed_in_the_control_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moves(work: Work) -> None:
        vm = work.vm("web_1")
        work.tx.replace(vm, replace(vm, host="h2"))

    async with running(tmp_path) as service:
        threads = write_after_the_first_plan(monkeypatch, service, moves)
        # h2 has capacity for one VM, and was empty when the file was read.
        text = NEW.replace('"h2"\n[', '"h2"\ncapacity = 1\n[', 1)
        with pytest.raises(FleetFileError, match=r"web_1 \(moved there\)"):
            await service.gateway.merge_fleet(of(text), who=OPERATOR)
        assert threads == [threads[0], "forewarn-control"]
        assert "web_2" not in await vms_of(service)


@in_loop
async def test_start_with_the_applied_file_does_not_parse_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path):
        pass

    def unread(_text: FleetText) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(FleetText, "read", unread)
    monkeypatch.setattr(Planning, "begin", unread)
    async with running(tmp_path) as service:
        assert sorted(await vms_of(service)) == ["web_0", "web_1"]
        # Values without a file are not treated as an applied file later.
        await service.gateway.order(
            OPERATOR,
            lambda work: fleet_changes.apply(work, MergePlan(changes=())),
        )
    with pytest.raises(AssertionError, match="it was read"):
        async with running(tmp_path):
            pass


@in_loop
async def test_stopping_service_does_not_wait_for_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    original = Planning.plan

    def plan(self: Planning) -> MergePlan:
        begun.set()
        self.end()
        return original(self)

    async with running(tmp_path) as service:
        monkeypatch.setattr(Planning, "plan", plan)
        with pytest.raises(PlanningError, match="is stopping"):
            await service.gateway.merge_fleet(of(NEW), who=OPERATOR)
        assert begun.is_set()


def begin_and_count(planned: Planning) -> None:
    planned.begin()
    planned.count()


def test_process_that_cannot_start_or_ends_early_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Planning(tmp_path / "f.db", of(FLEET))
    planned.end()
    with pytest.raises(PlanningError, match="is stopping"):
        planned.begin()
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    with monkeypatch.context() as there:
        there.setattr(limits, "PLANNING_SECONDS_MAX", 0.1)
        there.setattr(sys, "executable", str(sleeper))
        slow = Planning(tmp_path / "f.db", of(FLEET))
        with pytest.raises(
            PlanningError, match=r"within 0\.1 s and was killed"
        ) as late:
            begin_and_count(slow)
        assert "load of the machine" in late.value.hint
        slow.end()
    with monkeypatch.context() as there:
        there.setattr(sys, "executable", "false")
        gone = Planning(tmp_path / "f.db", of(FLEET))
        with pytest.raises(PlanningError, match=r"has ended \(status 1\)"):
            begin_and_count(gone)
        gone.end()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    none = Planning(tmp_path / "f.db", of(FLEET))
    with pytest.raises(PlanningError, match="No such file or directory"):
        none.begin()
    none.end()


def test_unreadable_store_is_reported(tmp_path: Path) -> None:
    planned = Planning(tmp_path / "missing.db", of(FLEET))
    planned.begin()
    with pytest.raises(PlanningError, match="unable to open"):
        planned.plan()
    assert planned.count()["vms"] == 2
    planned.end()


def test_process_answers_until_its_input_ends(tmp_path: Path) -> None:
    requests = b"".join(
        pickle.dumps(message) for message in (of(FLEET), *[planning.Question.COUNT] * 2)
    )
    output = io.BytesIO()
    planning.serve(tmp_path / "f.db", io.BytesIO(requests), output)
    output.seek(0)
    answers = [pickle.load(output) for _ in range(4)]
    count = {"tenants": 1, "scopes": 2, "hosts": 2, "vms": 2}
    assert answers == [count, None] * 2


REFUSED = """
import os
def refuse(_niceness):
    raise PermissionError("not under this unit")
os.nice = refuse
from forewarn.service.planning import main
main()
"""


def test_process_works_without_a_lower_priority(tmp_path: Path) -> None:
    """The system can reject the niceness of the process."""
    requests = b"".join(map(pickle.dumps, (of(FLEET), planning.Question.COUNT)))
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, str(tmp_path / "f.db")],
        input=requests,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert pickle.loads(done.stdout)["vms"] == 2


RUNS = Vm(name="a", wire_name="a", host="h", scope="s", tenant="t", view="v", vm_id="x")
UP = Host(name="h")
SCOPE = Scope(name="s", tenant="t", kind=ScopeKind.SCALE_SET)
LINE = AuditEntry(
    entry_id="1", at=1, actor=CLOCK, kind=AuditKind.HOST_FAILED, why="", subjects=()
)


@pytest.mark.parametrize(
    ("before", "after", "concerns"),
    [
        (RUNS, replace(RUNS, state=VmState.DOWN, revision=1), False),
        (RUNS, replace(RUNS, started=("op",)), False),
        (RUNS, replace(RUNS, state=VmState.DELETED), True),
        (RUNS, replace(RUNS, moving_to="h2"), True),
        (RUNS, None, True),
        (None, RUNS, True),
        (UP, replace(UP, state=HostState.DOWN), False),
        (UP, replace(UP, capacity=3), True),
        (SCOPE, replace(SCOPE, revision=1), True),
        (None, LINE, False),
    ],
)
def test_writes_that_affect_plans_are_recognized(
    before: Any, after: Any, *, concerns: bool
) -> None:
    assert fleet_changes.concerns_plans(before, after) is concerns


@in_loop
async def test_file_is_read_while_the_service_uses_the_store(tmp_path: Path) -> None:
    async with running(tmp_path) as service:
        with reading(tmp_path / "f.db") as reader:
            assert reader.get(Vm, "web_2") is None
            await service.gateway.merge_fleet(of(NEW), who=OPERATOR)
            assert reader.get(Vm, "web_2") is None, "it sees one moment"


@in_loop
async def test_small_file_is_planned_without_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(_planned: Planning) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(limits, "READ_HERE_CHARACTERS_MAX", 1_000)
    monkeypatch.setattr(Planning, "begin", unwanted)
    async with running(tmp_path) as service:
        assert (await service.gateway.count_fleet(of(NEW)))["vms"] == 3
        planned = await service.gateway.merge_fleet(of(NEW), who=None)
        done = await service.gateway.merge_fleet(of(NEW), who=OPERATOR)
        assert list(planned.lines()) == list(done.lines())
        # But comparing it with many VMs would take too long.
        monkeypatch.setattr(limits, "PLANNED_HERE_VMS_MAX", 2)
        with pytest.raises(AssertionError, match="a process was started"):
            await service.gateway.merge_fleet(of(NEW), who=None)
