"""Campaigns are planned by another process, with a snapshot of the store."""

import asyncio
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forewarn.campaigns.model import Impact
from forewarn.campaigns.plan_drift import DriftedError
from forewarn.campaigns.plan_progress import Part, Progress, ReportProgress
from forewarn.campaigns.planner import Terms
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignFileError, CampaignText
from forewarn.control.gateway import BusyError
from forewarn.control.requests.campaign_starts import PlanRequest
from forewarn.control.transactions.work import Who
from forewarn.instants import MINUTE
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import RefusedError
from forewarn.service import limits, planning_process
from forewarn.service.campaign_planning import serve
from forewarn.service.campaign_plans import CampaignPlanningError
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditEntry
from forewarn.store.snapshot import Source
from forewarn.store.sqlite import SqliteStore
from forewarn.wording import operators
from tests.support.loops import in_loop
from tests.unit.service.test_fleets import FLEET, running

TEXT = """\
[campaign]
name = "kernel"
reason = "CVE-2026-1234"
impact = "reboot"
select = { all = true }
"""

ALICE = Who(actor=operator("alice"))

MORE = FLEET + '[[host]]\nname = "h3"\ncapacity = 4\nlabels = { model = "r7525" }\n'


def of(text: str) -> CampaignText:
    return CampaignText(name="kernel.toml", text=text)


@in_loop
async def test_plan_is_made_by_a_process_and_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, MORE) as service:
        before = await service.gateway.read(
            lambda reader: [entry.key for entry in every(reader, kinds.ALL_AUDIT)]
        )
        plan = json.loads(await service.gateway.plan_campaign(of(TEXT), hosts_max=2))
        after: list[AuditEntry] = await service.gateway.read(
            lambda reader: list(every(reader, kinds.ALL_AUDIT))
        )
    assert plan["host_count"] == 3
    assert plan["vm_count"] == 2
    assert [len(plan["hosts"]), plan["hosts_left_out"]] == [2, 1]
    assert plan["counts"] == {
        "model": [{"value": "", "hosts": 2}, {"value": "r7525", "hosts": 1}]
    }
    # The emptiest host comes first.
    assert [host["host"] for host in plan["hosts"]] == ["h2", "h1"]
    assert [entry.key for entry in after] == before


@in_loop
async def test_simulation_is_made_by_a_process_and_changes_nothing(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, MORE) as service:
        before = await service.gateway.read(
            lambda reader: [entry.key for entry in every(reader, kinds.ALL_AUDIT)]
        )
        document = json.loads(
            await service.gateway.simulate_campaign(
                of(TEXT), Assumptions(seed=3), hosts_max=2
            )
        )
        after: list[AuditEntry] = await service.gateway.read(
            lambda reader: list(every(reader, kinds.ALL_AUDIT))
        )
    assert [document["state"], document["done"], document["seed"]] == ["Done", 3, 3]
    assert [len(document["hosts"]), document["hosts_left_out"]] == [2, 1]
    assert [entry.key for entry in after] == before


LIMITED = """\
[driver.simulated]
limited = ["stop vm=web_0"]
[host_step.reboot-host]
program = ["true"]
"""


@in_loop
async def test_reboot_of_hosts_leaves_out_vms_that_cannot_be_stopped(
    tmp_path: Path,
) -> None:
    file = tmp_path / "forewarn.toml"
    file.write_text(LIMITED, encoding="utf-8")
    async with running(tmp_path, MORE, file=file) as service:
        gateway = service.gateway
        plan = json.loads(await gateway.plan_campaign(of(TEXT), hosts_max=9))
        played = json.loads(
            await gateway.simulate_campaign(of(TEXT), Assumptions(), hosts_max=9)
        )
    (refused,) = plan["refused"]
    assert refused["reason"] == "unable"
    hosts = {host["host"] for host in plan["hosts"]}
    assert len(hosts) == 2
    assert refused["host"] not in hosts
    assert {host["host"] for host in played["hosts"]} == hosts
    assert (played["state"], played["done"]) == ("Done", 2)


@in_loop
async def test_work_that_the_service_cannot_do_is_refused_before_it_is_planned(
    tmp_path: Path,
) -> None:
    flags = {"driver.kind": "command", "driver.command.freeze": "true"}
    steps = '[campaign.steps]\nwork = { step = "flash" }\n'
    refused = {
        TEXT: "the driver of this service does not support reboot",
        TEXT.replace("reboot", "freeze") + steps: "this service has no host steps",
        TEXT.replace("reboot", "freeze")
        + '[[campaign.check]]\nuse = "error-rate"\n': "there is no check error-rate",
    }
    async with running(tmp_path, MORE, flags) as service:
        gateway = service.gateway
        for text, why in refused.items():
            with pytest.raises(RefusedError, match=why):
                await gateway.plan_campaign(of(text), hosts_max=2)
            with pytest.raises(RefusedError, match=why):
                await gateway.simulate_campaign(of(text), Assumptions(), hosts_max=2)
        plan = await gateway.plan_campaign(
            of(TEXT.replace("reboot", "freeze")), hosts_max=2
        )
    assert json.loads(plan)["host_count"] == 3


@in_loop
async def test_simulation_does_not_delay_plans_and_ends_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    python = sys.executable
    async with running(tmp_path) as service:
        monkeypatch.setattr(sys, "executable", str(sleeper))
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        begin = planning_process.begin

        def begin_and_tell(module: str, store: Path) -> "subprocess.Popen[bytes]":
            process = begin(module, store)
            loop.call_soon_threadsafe(begun.set)
            return process

        monkeypatch.setattr(planning_process, "begin", begin_and_tell)
        first = asyncio.create_task(
            service.gateway.simulate_campaign(of(TEXT), Assumptions(), hosts_max=9)
        )
        await begun.wait()
        monkeypatch.setattr(sys, "executable", python)
        plan = json.loads(await service.gateway.plan_campaign(of(TEXT), hosts_max=9))
    assert plan["host_count"] == 2
    with pytest.raises(BusyError, match="the service is stopping"):
        await first


@in_loop
async def test_labels_of_hosts_are_read(tmp_path: Path) -> None:
    text = TEXT.replace("all = true", 'labels = { model = "r7525" }')
    fleet = MORE + '[[vm]]\nname = "db_0"\nhost = "h3"\n'
    async with running(tmp_path, fleet) as service:
        plan = json.loads(await service.gateway.plan_campaign(of(text), hosts_max=9))
        with pytest.raises(RefusedError, match='no host has model "r99"'):
            await service.gateway.plan_campaign(
                of(text.replace("r7525", "r99")), hosts_max=9
            )
    assert [host["host"] for host in plan["hosts"]] == ["h3"]
    assert plan["counts"] == {"model": [{"value": "r7525", "hosts": 1}]}


UNKNOWN = """\
[campaign]
name = "kernel"
reason = "CVE-2026-1234"
impact = "none"
[campaign.steps]
work = { step = "flash" }
verify = { step = "flashed" }
[campaign.select]
host = [
    "h1",
    "h9",
]
cluster = ["a"]
except = ["h8"]
labels = { model = "r99" }
[[campaign.check]]
use = "error-rate"
"""

STEP_TABLES = '[host_step.flash]\nprogram = ["true"]\n'
VERIFY_TABLE = STEP_TABLES.replace("flash", "flashed")
CHECK_TABLE = """\
[check.error-rate]
kind = "command"
program = ["true"]
"""


@in_loop
async def test_refusals_of_names_in_the_file_have_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "forewarn.toml"
    settings = ""
    for more, refused in (
        (
            STEP_TABLES,
            ["kernel.toml:7: campaign.steps.verify: there is no host step flashed"],
        ),
        (
            VERIFY_TABLE,
            ["kernel.toml:17: campaign.check.use: there is no check error-rate"],
        ),
        (
            CHECK_TABLE,
            [
                'kernel.toml:9: campaign.select.host: the fleet has no host "h9"',
                'kernel.toml:14: campaign.select.except: the fleet has no host "h8"',
                'kernel.toml:13: campaign.select.cluster: no host has cluster "a"',
                'kernel.toml:15: campaign.select.labels.model: no host has model "r99"',
            ],
        ),
    ):
        settings += more
        file.write_text(settings, encoding="utf-8")
        async with running(tmp_path, MORE, file=file) as service:
            with pytest.raises(RefusedError) as caught:
                await service.gateway.plan_campaign(of(UNKNOWN), hosts_max=9)
        lines = caught.value.message.split("\n")
        assert [line.split(";")[0] for line in lines] == refused


@in_loop
async def test_invalid_file_starts_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    async with running(tmp_path) as service:
        monkeypatch.setattr(subprocess, "Popen", none)
        with pytest.raises(CampaignFileError, match="name: is missing"):
            await service.gateway.plan_campaign(of("[campaign]\n"), hosts_max=9)


@in_loop
async def test_process_that_ends_without_an_answer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as service:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(CampaignPlanningError, match=r"has ended \(status 1\)"):
            await service.gateway.plan_campaign(of(TEXT), hosts_max=9)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
        with pytest.raises(CampaignPlanningError, match="cannot start a process"):
            await service.gateway.plan_campaign(of(TEXT), hosts_max=9)


@in_loop
async def test_too_many_plans_and_a_stop_are_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(limits, "CAMPAIGNS_WAITING_MAX", 1)
    async with running(tmp_path) as service:
        monkeypatch.setattr(sys, "executable", str(sleeper))
        first = asyncio.create_task(
            service.gateway.plan_campaign(of(TEXT), hosts_max=9)
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="other campaigns are being planned"):
            await service.gateway.plan_campaign(of(TEXT), hosts_max=9)
    with pytest.raises(BusyError, match="the service is stopping"):
        await first


@in_loop
async def test_plan_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(limits, "PLANNING_SECONDS_MAX", 0.1)
    async with running(tmp_path) as service:
        monkeypatch.setattr(sys, "executable", str(sleeper))
        with pytest.raises(
            CampaignPlanningError, match=r"within 0\.1 s and was killed"
        ):
            await service.gateway.plan_campaign(of(TEXT), hosts_max=9)


def test_child_answers_an_error_as_a_value(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    SqliteStore(store).close()
    terms = Terms(notices=dict.fromkeys(Impact, 15 * MINUTE))
    request = PlanRequest(text=of(TEXT), hosts_max=9, terms=terms, now=0)
    output = io.BytesIO()
    serve(store, io.BytesIO(pickle.dumps(request)), output)
    answer = pickle.loads(output.getvalue())
    assert isinstance(answer, RefusedError)
    assert answer.message == "kernel.toml:5: campaign.select: no host matches"


@in_loop
async def test_driver_is_asked_again_before_a_plan(tmp_path: Path) -> None:
    program = tmp_path / "abilities"
    answer = tmp_path / "answer"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/asked\ncat {answer}\n")
    program.chmod(0o755)
    answer.write_text('{"host": "h1", "able": "no", "reason": "old firmware"}\n')
    flags = {
        "driver.kind": "command",
        "driver.command.freeze": "true",
        "driver.command.abilities": str(program),
    }
    text = of(TEXT.replace("reboot", "freeze"))
    async with running(tmp_path, MORE, flags) as service:
        first = json.loads(await service.gateway.plan_campaign(text, hosts_max=9))
        answer.write_text('{"host": "h1", "able": "yes"}\n')
        second = json.loads(await service.gateway.plan_campaign(text, hosts_max=9))
    assert [refusal["message"] for refusal in first["refused"]] == [
        "the driver says that freeze is not possible for its VMs: old firmware"
    ]
    assert second["refused"] == []
    questions = (tmp_path / "asked").read_text().splitlines()
    assert json.loads(questions[0]) == {"host": "h1", "vms": ["web_0", "web_1"]}


def test_process_says_how_far_it_has_come_before_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [
        Progress(part=Part.READING, done=1, of=2),
        Progress(part=Part.READING, done=2, of=2),
        Progress(part=Part.PLANNING),
    ]

    def make(_store: Source, request: str, report: ReportProgress) -> str:
        for progress in reports:
            report(progress)
        return request

    def told() -> list[Any]:
        stream = io.BytesIO()
        request = io.BytesIO(pickle.dumps("the answer"))
        planning_process.answering(make)(tmp_path, request, stream)
        end = stream.tell()
        stream.seek(0)
        answers: list[Any] = []
        while stream.tell() < end:
            answers.append(pickle.load(stream))
        return answers

    # Short work says nothing.
    assert told() == ["the answer"]
    monkeypatch.setattr(planning_process, "REPORT_AFTER", 0)
    assert told() == [*reports, "the answer"]


def test_progress_of_a_process_is_passed_on_and_its_answer_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = Progress(part=Part.PLAYING, done=3, of=9)
    stream = pickle.dumps(progress) + pickle.dumps("the answer")
    code = (
        "import sys; sys.stdin.buffer.read(); "
        f"sys.stdout.buffer.write({stream!r}); sys.stdout.buffer.flush()"
    )
    monkeypatch.setattr(
        planning_process, "command", lambda *_: [sys.executable, "-c", code]
    )
    progresses: list[Progress] = []
    request_process = planning_process.RequestProcess(
        "a.module", tmp_path, seconds_max=60
    )
    assert (
        request_process.answer(b"a request", report=progresses.append) == "the answer"
    )
    assert progresses == [progress]


@in_loop
async def test_progress_can_be_asked_while_a_campaign_is_simulated(
    tmp_path: Path,
) -> None:
    text = CampaignText(name="kernel.toml", text=TEXT, key="one")
    async with running(tmp_path, MORE) as service:
        gateway = service.gateway
        work = asyncio.create_task(
            gateway.simulate_campaign(text, Assumptions(), hosts_max=9)
        )
        reports: set[Progress | None] = set()
        while not work.done():
            reports.add(await gateway.campaign_progress("one"))
            assert await gateway.campaign_progress("two") is None
            await asyncio.wait({work}, timeout=0.01)
        await work
        assert {progress.part for progress in reports if progress} <= set(Part)
        assert any(reports)
        assert await gateway.campaign_progress("one") is None


@in_loop
async def test_start_of_an_outdated_plan_has_the_difference(tmp_path: Path) -> None:
    async with running(tmp_path, MORE) as service:
        plan = json.loads(await service.gateway.plan_campaign(of(TEXT), hosts_max=9))
        smaller = TEXT.replace("all = true", 'all = true, except = ["h2"]')
        start = service.gateway.start_campaign
        with pytest.raises(DriftedError) as outdated:
            await start(of(smaller), digest=plan["digest"], who=ALICE)
        with pytest.raises(RefusedError, match="the digest is mistyped") as unknown:
            await start(of(smaller), digest="1c36", who=ALICE)
    assert outdated.value.drift.gone == ("h2",)
    assert outdated.value.drift.has_other_file
    sentence = operators.refusal(outdated.value)
    assert "now, not " in sentence
    assert ": the campaign file was changed; 1 host (h2) is gone" in sentence
    assert not isinstance(unknown.value, DriftedError)
