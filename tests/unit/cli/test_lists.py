"""Lists, explanations, histories and streams as they are printed."""

import json
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from forewarn.cli import client as client_module
from forewarn.cli import listings, output, watching
from forewarn.control.gateway import BusyError
from forewarn.control.requests import failures
from forewarn.control.transactions.work import Who
from forewarn.protocol.actors import operator
from forewarn.texts import printable
from forewarn.verbs.table import VERBS
from tests.unit.admin.gateway import FLEET, LocalGateway
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]


def test_operations_are_printed_as_a_table(service: Served, forewarn: Run) -> None:
    assert forewarn("operations").out == "no open operations\n"
    forewarn("maintain", "h1", "--impact", "freeze")
    head, row = forewarn("operations").out.splitlines()
    assert head.split()[:3] == ["OPERATION", "STATE", "WHAT"]
    assert "maintain (freeze) of host h1  2    0/2       2030-01-01T00:15:00Z" in row
    assert row.endswith("(+2 more)")


def test_operations_are_printed_as_a_json_array(service: Served, forewarn: Run) -> None:
    assert json.loads(forewarn("operations", "--json").out) == []
    forewarn("fail", "web_0")
    forewarn("restore", "web_0")
    assert json.loads(forewarn("operations", "--json").out) == []
    for words in (["--all"], ["--state", "done"]):
        (each,) = json.loads(forewarn("operations", "--json", *words).out)
        assert each["state"] == "Done"


def test_events_are_filtered(service: Served, forewarn: Run) -> None:
    forewarn("maintain", "h1", "--impact", "freeze")
    assert len(json.loads(forewarn("events", "--json").out)) == 2
    (event,) = json.loads(forewarn("events", "--vm", "db_0", "--json").out)
    assert event["Resources"] == ["db_0"]
    assert "db_0" in forewarn("events", "--tenant", "bank").out
    assert forewarn("events", "--state", "started").out == "no events\n"
    ended = forewarn("events", "--vm", "db_9")
    assert (ended.status, ended.out) == (4, "")


def test_every_page_is_requested(service: Served, forewarn: Run) -> None:
    for vm in ("web_0", "web_1", "db_1"):
        forewarn("fail", vm)
    with closing(client_module.Client(service.url)) as client:
        found = list(client.every("operations", "operations", {"limit": "1"}))
    assert len(found) == 3


def test_explain_lists_the_reasons_of_an_operation(
    service: Served, forewarn: Run
) -> None:
    forewarn("maintain", "h1", "--impact", "freeze")
    (operation,) = json.loads(forewarn("operations", "--json").out)
    name = operation["operation"]
    ended = forewarn("explain", name)
    assert (
        ended.out.splitlines()[0] == f"{name}, maintain (freeze) of host h1: Announced"
    )
    assert ended.out.count("  * ") == 3
    assert json.loads(forewarn("explain", name, "--json").out)["id"] == name
    assert forewarn("explain", "op-none").status == 4
    assert forewarn("explain", "../fleet").status == 4


def test_explain_of_a_vm_lists_its_operations(service: Served, forewarn: Run) -> None:
    forewarn("maintain", "h1", "--impact", "freeze")
    first, second, *_ = forewarn("explain", "web_0").out.splitlines()
    assert first == "vm web_0: running"
    assert second == "it runs on host h1; 1 open operation concerns it:"
    ended = forewarn("explain", "web_9")
    assert (ended.status, ended.out) == (4, "")
    assert 'Did you mean "web_1" or "web_0"?' in ended.err
    assert "--kind vm" in forewarn("explain", "same").err
    assert forewarn("explain", "same", "--kind", "vm").status == 0


def test_problems_set_the_exit_status(service: Served, forewarn: Run) -> None:
    ended = forewarn("problems", "--kind", "vm-down")
    assert (ended.status, ended.out) == (0, "nothing needs you\n")
    forewarn("fail", "h1")
    ended = forewarn("problems", "--kind", "vm-down")
    head, row = ended.out.splitlines()
    assert ended.status == 1
    assert head.split() == ["TARGET", "KIND", "SINCE", "TENANT", "PROBLEM", "TRY"]
    assert row.startswith(
        "h1      vm-down  2030-01-01T00:00:00Z  bank shop  host h1 is down"
    )
    assert row.endswith("forewarn restore h1")
    told = json.loads(forewarn("problems", "--json", "--kind", "vm-down").out)
    assert told["counts"]["vm-down"] == len(told["problems"]) == 1
    assert forewarn("problems", "--vm", "nope").status == 4


def test_problems_are_watched_until_they_end(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    forewarn("fail", "h1")
    told: list[dict[str, str]] = []

    def printing(value: dict[str, str]) -> None:
        told.append(value)
        if "ended" in value:
            raise KeyboardInterrupt
        threading.Thread(
            target=httpx2.post,
            args=[f"{service.url}/v1/restore"],
            kwargs={"json": {"names": ["h1"]}},
        ).start()

    monkeypatch.setattr(output, "json_line", printing)
    assert forewarn("problems", "--watch", "--json").status == 0
    assert [each["kind"] for each in told] == ["vm-down", "vm-down"]


FLEET_WITH_ZONES = FLEET.replace('name = "h2"', 'name = "h2"\nzone = "2"').replace(
    'name = "web_0"', 'name = "web_0"\ntags = { role = "web" }'
)


@pytest.fixture
def zoned(service: Served) -> Served:
    service.gateway = service.app.state.gateway = LocalGateway(FLEET_WITH_ZONES)
    return service


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        (["redeploy", "--host", "h1"], ["db_0", "web_0"]),
        (["redeploy", "--scope", "web"], ["web_0", "web_1"]),
        (["redeploy", "--tenant", "bank", "--host", "h2"], ["db_1", "same"]),
        (["redeploy", "--zone", "2", "--scope", "web"], ["web_1"]),
        (["redeploy", "--tag", "role=web"], ["web_0"]),
        (["upgrade-os", "--scope", "db"], ["db_0", "db_1"]),
        (["maintain", "--zone", "2", "--impact", "freeze"], ["h2"]),
        (["maintain", "--scope", "web", "--impact", "freeze"], ["h1", "h2"]),
        (["maintain", "--host", "h1", "--impact", "freeze"], ["h1"]),
        (["predict-failure", "--tag", "role=web"], ["db_0", "web_0"]),
        (["fail", "--scope", "web"], ["web_0", "web_1"]),
        (["fail", "--kind", "host", "--zone", "2"], ["h2"]),
    ],
)
def test_selectors_name_the_targets_of_a_request(
    zoned: Served, forewarn: Run, words: list[str], targets: list[str]
) -> None:
    ended = forewarn(*words, "--json")
    assert ended.status == 0, ended.err
    operations = json.loads(ended.out)["operations"]
    assert sorted(each["target"] for each in operations) == targets


@pytest.mark.parametrize(
    "name", [name for name, entry in VERBS.items() if entry.targets.is_list]
)
def test_names_together_with_selectors_are_refused(
    zoned: Served, forewarn: Run, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "names.txt"
    file.write_text("h1\n")
    needed = ["--impact", "freeze"] if name == "maintain" else []
    for words in (["h1"], ["--file", str(file)]):
        ended = forewarn(name, *words, *needed, "--zone", "2")
        assert (ended.status, ended.out) == (2, "")
        assert (
            f"{name} takes names or selectors, not both: h1 and --zone 2" in ended.err
        )
        assert "hint: Leave out the selectors" in ended.err
    assert json.loads(forewarn("operations", "--json").out) == []


def test_restore_of_vms_on_a_down_host_names_the_host(
    zoned: Served, forewarn: Run
) -> None:
    forewarn("fail", "h1")
    ended = forewarn("restore", "--host", "h1")
    assert (ended.status, ended.out) == (4, "")
    first, hint = ended.err.splitlines()
    assert first.endswith("match --host h1 are on hosts that are down: h1")
    assert "`forewarn restore h1`" in hint
    forewarn("fail", "web_1")
    ended = forewarn("restore", "--scope", "web")
    assert (ended.status, ended.out) == (1, "vm web_1 is running\n")
    assert "VM web_0 cannot run: its host h1 is down" in ended.err


def test_restore_cancel_and_approve_accept_selectors(
    zoned: Served, forewarn: Run
) -> None:
    forewarn("fail", "web_0", "db_0")
    told = json.loads(forewarn("restore", "--scope", "web", "--json").out)
    assert [each["name"] for each in told["restored"]] == ["web_0"]
    ended = forewarn("restore", "--scope", "web")
    assert (ended.status, ended.out) == (4, "")
    assert "nothing to restore matches --scope web" in ended.err
    zoned.do(lambda: zoned.gateway.enable("web_1"))
    forewarn("maintain", "h2", "--impact", "reboot")
    ended = forewarn("approve", "--tenant", "shop")
    assert "is approved by (operator)" in ended.out
    assert "is cancelled" in forewarn("cancel", "--host", "h2").out
    assert forewarn("cancel").status == 2


def test_lists_accept_all_selectors(
    zoned: Served, forewarn: Run, tmp_path: Path
) -> None:
    zoned.do(lambda: zoned.gateway.enable("web_0"))
    for host in ("h1", "h2"):
        forewarn("maintain", host, "--impact", "freeze")
    names = tmp_path / "names"
    names.write_text("web_1\n\n")
    for selected, host in (
        (["--zone", "2"], "h2"),
        (["--tag", "role=web"], "h1"),
        (["--host", "h1"], "h1"),
        (["--scope", "web", "--zone", "2"], "h2"),
        (["--file", str(names)], "h2"),
    ):
        (one,) = json.loads(forewarn("operations", "--json", *selected).out)
        assert one["host"] == host, selected
        events = json.loads(forewarn("events", "--json", *selected).out)
        assert {each["operation"] for each in events} == {one["operation"]}
        fleet = json.loads(forewarn("fleet", "show", "--json", *selected).out)
        assert [each["name"] for each in fleet["hosts"]] == [host]
        assert fleet["vms"]
        assert {each["host"] for each in fleet["vms"]} == {host}
        entries = json.loads(forewarn("history", "--json", *selected).out)
        assert any(f"host:{host}" in each["subjects"] for each in entries)
        accounts = json.loads(forewarn("history", "--summary", "--json", *selected).out)
        assert [each["host"] for each in accounts] == [host]
    assert forewarn("operations", "--tag", "role").status == 2
    assert forewarn("rollout", "list", "--json", "--zone", "2").out.count("ro-") == 1
    assert json.loads(forewarn("rollout", "list", "--json", "--zone", "3").out) == []


LISTS_WITH_NAMES = (
    ["operations"],
    ["events"],
    ["rollout", "list"],
    ["problems"],
    ["fleet", "show"],
    ["history"],
    ["history", "--summary"],
    ["operations", "--watch"],
    ["problems", "--watch"],
)


@pytest.mark.parametrize("words", LISTS_WITH_NAMES)
def test_unknown_name_in_a_file_is_refused(
    service: Served, forewarn: Run, tmp_path: Path, words: list[str]
) -> None:
    forewarn("maintain", "h1", "h2", "--impact", "freeze")
    file = tmp_path / "names.txt"
    file.write_text("h1\nnope\n")
    ended = forewarn(*words, "--file", str(file))
    assert (ended.status, ended.out) == (4, "")
    assert f"{file}: there is no operation" in ended.err
    assert "'nope'" in ended.err


@pytest.mark.parametrize("words", LISTS_WITH_NAMES[:-2])
def test_names_in_a_file_can_be_of_any_kind(
    service: Served, forewarn: Run, tmp_path: Path, words: list[str]
) -> None:
    forewarn("reboot", "same")
    (reboot,) = json.loads(forewarn("operations", "--json").out)
    file = tmp_path / "names.txt"
    file.write_text(f"h1\nweb_1\nshop\ndb\nsame\n{reboot['operation']}\n")
    ended = forewarn(*words, "--file", str(file))
    assert (ended.status, ended.err) == (0, "")


def test_rollouts_are_filtered_by_the_names_in_a_file(
    service: Served, forewarn: Run, tmp_path: Path
) -> None:
    made = json.loads(
        forewarn("maintain", "h1", "h2", "--impact", "freeze", "--json").out
    )
    file = tmp_path / "names.txt"
    for name, found in (("h2", 1), (made["rollout"], 1), ("db_0", 1), ("same", 0)):
        file.write_text(name)
        ended = forewarn("rollout", "list", "--file", str(file), "--json")
        rollouts = json.loads(ended.out)
        assert len(rollouts) == found, name
        assert all(set(each) >= {"rollout", "states"} for each in rollouts)


def test_waits_and_capacity_are_printed_as_tables(
    service: Served, forewarn: Run
) -> None:
    assert forewarn("waits").out == "no approval is missing\n"
    service.do(lambda: service.gateway.enable("db_0"))
    forewarn("maintain", "h1", "h2", "--impact", "redeploy", "--at-once", "1")
    head, bank, shop = forewarn("waits").out.splitlines()
    assert head.split()[:4] == ["TENANT", "EVENTS", "VMS", "HOSTS"]
    assert bank.split()[:4] == ["bank", "1", "1", "1"]
    assert shop.split()[-2:] == ["no", "never"]
    assert len(json.loads(forewarn("waits", "--tenant", "shop", "--json").out)["waits"])
    lines = forewarn("capacity").out.splitlines()
    zone = ["-", "3", "0", "1", "no", "limit", "5", "no", "limit"]
    assert lines[1].split() == zone
    assert lines[4].split()[1:] == ["h2", "-", "3", "3", "yes"]
    assert json.loads(forewarn("capacity", "--json").out)["complete"] is True


def test_history_is_filtered_and_in_order(service: Served, forewarn: Run) -> None:
    assert forewarn("history", "--vm", "web_0").out.count("\n") == 2
    forewarn("reboot", "web_0", "--reason", "a ticket")
    ended = forewarn("history", "--vm", "web_0", "--since", "1m")
    assert "a ticket" in ended.out
    entries = json.loads(forewarn("history", "--json").out)
    assert [each["id"] for each in entries] == sorted(each["id"] for each in entries)
    assert forewarn("history", "--vm", "web_1", "--host", "h1").out == ("no entries\n")


def test_long_details_are_shortened() -> None:
    assert listings.first_line("") == ""
    assert listings.first_line("one") == "one"
    assert listings.first_line("one\ntwo\nthree") == "one (+2 lines)"


def test_stream_prints_the_current_state_and_each_change(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    forewarn("fail", "web_0")
    printed: list[str] = []

    def printing(value: dict[str, str]) -> None:
        printed.append(value["state"])
        if len(printed) == 1:
            threading.Thread(
                target=httpx2.post,
                args=[f"{service.url}/v1/restore"],
                kwargs={"json": {"names": ["web_0"]}},
            ).start()
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(output, "json_line", printing)
    ended = forewarn("operations", "--watch", "--json", "--scope", "web")
    assert (ended.status, ended.err) == (0, "")
    assert printed == ["Impacting", "Done"]


def test_ended_stream_is_restarted(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    forewarn("fail", "web_0")
    streams: list[str] = []

    async def ending() -> object:
        streams.append("ended")
        if len(streams) == 2:
            service.gateway.plane.order(
                Who(actor=operator("test")),
                lambda work: failures.fail_vm(work, "db_0"),
                now=service.gateway.now(),
            )
        return
        yield ()

    printed: list[str] = []

    def printing(line: str) -> None:
        printed.append(line)
        if len(printed) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(service.gateway, "changes", ending)
    monkeypatch.setattr(output, "line", printing)
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.0)
    ended = forewarn("events", "--watch")
    assert ended.status == 0
    first, second = printed
    assert "Started  Reboot  web  web_0" in first
    assert "Started  Reboot  db  db_0" in second
    assert "has ended the stream; trying again" in ended.err
    assert "forewarn: the service was away until " in ended.err


def test_refused_stream_exits_with_a_usage_error(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("events", "--watch", "--vm", "a" * 300)
    assert ended.status == 2
    assert "vm: " in ended.err


@pytest.mark.parametrize(
    "words", [["operations"], ["events", "--watch"], ["fleet", "show"]]
)
def test_unreachable_service_is_reported(forewarn: Run, words: list[str]) -> None:
    ended = forewarn(*words, "--url", "http://127.0.0.1:1")
    assert (ended.status, ended.out) == (3, "")
    assert "http://127.0.0.1:1 cannot be reached" in ended.err
    assert "forewarn serve" in ended.err


def test_service_failure_sets_the_exit_status(service: Served, forewarn: Run) -> None:
    service.gateway.broken = BusyError("the service is stopping")
    ended = forewarn("reboot", "web_0")
    assert ended.status == 3
    service.gateway.broken = ZeroDivisionError()
    ended = forewarn("reboot", "web_0")
    assert ended.status == 1


def test_answer_of_another_server_is_an_error(service: Served, forewarn: Run) -> None:
    ended = forewarn("operations", "--url", service.url + "/docs")
    assert ended.status == 4  # it answers as ours does: there is nothing there
    ended = forewarn("operations", "--url", service.url + "/v1/fleet/export?")
    assert ended.status in {3, 4}


def test_control_characters_are_escaped() -> None:
    assert printable("a\x1b[31mb\tö") == "a\\x1b[31mb\\tö"


def test_rollouts_are_listed_and_shown(service: Served, forewarn: Run) -> None:
    assert forewarn("rollout", "list").out == "no open rollouts\n"
    forewarn("maintain", "h1", "h2", "--impact", "freeze", "--reason", "firmware")
    head, row = forewarn("rollout", "list").out.splitlines()
    assert head.split()[:5] == ["ROLLOUT", "STATE", "KIND", "DONE", "OPERATIONS"]
    assert "Open   maintain  0/2   1 Planned, 1 Announced  2030" in row
    rollout = row.split()[0]
    first, second, _, *table = forewarn("rollout", "show", rollout).out.splitlines()
    assert first == f"{rollout}, maintain: Open, at most 1 at once"
    assert second == "ordered by operator at 2030-01-01T00:00:00Z: firmware"
    assert len(table) == 4
    told = json.loads(forewarn("rollout", "show", rollout, "--json").out)
    assert [each["target"] for each in told["operations"]] == ["h1", "h2"]
    assert forewarn("rollout", "show", "../fleet").status == 4


def test_lists_and_history_are_filtered_by_rollout(
    service: Served, forewarn: Run
) -> None:
    forewarn("maintain", "h1", "--impact", "freeze")
    forewarn("maintain", "h2", "--impact", "freeze")
    _, second = json.loads(forewarn("rollout", "list", "--json").out)
    asked = ("--rollout", second["rollout"])
    assert "host h2" in forewarn("operations", *asked).out
    assert "host h1" not in forewarn("operations", *asked).out
    (account,) = json.loads(forewarn("history", "--summary", "--json", *asked).out)
    assert account["target"] == "h2"
    entries = json.loads(forewarn("history", "--json", *asked).out)
    assert all(f"request:{second['rollout']}" in each["subjects"] for each in entries)
    assert forewarn("operations", "--rollout", "ro-none").status == 4


def test_failure_of_a_host_needs_no_approvals(service: Served, forewarn: Run) -> None:
    forewarn("fail", "h1")
    _, row = forewarn("operations").out.splitlines()
    assert "fail of host h1  2    -         2030" in row


def test_typo_is_reported_with_the_usage_of_its_command(forewarn: Run) -> None:
    ended = forewarn("operations", "--hots", "h1")
    assert ended.status == 2
    assert ended.err.startswith("usage: forewarn operations [-h] [--vm VM]")
    assert 'unrecognized arguments: --hots h1 (did you mean "--host"?)' in ended.err
    assert '(did you mean "maintain"?)' in forewarn("maintian", "h1").err
    assert '(did you mean "freeze"?)' in forewarn("maintain", "--impact=freze").err
    ended = forewarn("fleet", "shwo")
    assert ended.err.startswith("usage: forewarn fleet [-h] COMMAND")
    assert '(did you mean "show"?)' in ended.err
