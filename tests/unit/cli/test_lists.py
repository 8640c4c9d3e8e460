"""Lists, explanations, histories and streams as they are printed."""

import json
import threading
from collections.abc import Callable
from contextlib import closing

import httpx2
import pytest

from forewarn.cli import client as client_module
from forewarn.cli import listings, output, watching
from forewarn.control.gateway import BusyError
from forewarn.control.requests import failures
from forewarn.control.transactions.work import Who
from forewarn.protocol.actors import operator
from forewarn.texts import printable
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
    for options in (["--all"], ["--state", "done"]):
        (operation,) = json.loads(forewarn("operations", "--json", *options).out)
        assert operation["state"] == "Done"


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
        operations = list(client.every("operations", "operations", {"limit": "1"}))
    assert len(operations) == 3


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
    assert 'Did you mean "web_1" or "web_0"' in ended.err
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
    document = json.loads(forewarn("problems", "--json", "--kind", "vm-down").out)
    assert document["counts"]["vm-down"] == len(document["problems"]) == 1
    assert forewarn("problems", "--vm", "nope").status == 4


def test_problems_are_watched_until_they_end(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    forewarn("fail", "h1")
    problems: list[dict[str, str]] = []

    def printing(value: dict[str, str]) -> None:
        problems.append(value)
        if "ended" in value:
            raise KeyboardInterrupt
        threading.Thread(
            target=httpx2.post,
            args=[f"{service.url}/v1/restore"],
            kwargs={"json": {"names": ["h1"]}},
        ).start()

    monkeypatch.setattr(output, "json_line", printing)
    assert forewarn("problems", "--watch", "--json").status == 0
    assert [problem["kind"] for problem in problems] == ["vm-down", "vm-down"]


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
    # Of five VMs, the two on h1 also use the places that are reserved for them.
    zone = ["-", "3", "0", "1", "0", "no", "limit", "7", "no", "limit"]
    assert lines[1].split() == zone
    # h3 keeps a place for a VM of h1 with another fault domain of the same scope.
    assert lines[4].split()[1:] == ["h2", "-", "3", "3", "no"]
    assert json.loads(forewarn("capacity", "--json").out)["complete"] is True


def test_history_is_filtered_and_in_order(service: Served, forewarn: Run) -> None:
    assert forewarn("history", "--vm", "web_0").out.count("\n") == 2
    forewarn("reboot", "web_0", "--reason", "a ticket")
    ended = forewarn("history", "--vm", "web_0", "--since", "1m")
    assert "a ticket" in ended.out
    entries = json.loads(forewarn("history", "--json").out)
    assert [entry["id"] for entry in entries] == sorted(
        entry["id"] for entry in entries
    )
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
    document = json.loads(forewarn("rollout", "show", rollout, "--json").out)
    assert [operation["target"] for operation in document["operations"]] == ["h1", "h2"]
    assert forewarn("rollout", "show", "../fleet").status == 4


def test_lists_and_history_are_filtered_by_rollout(
    service: Served, forewarn: Run
) -> None:
    forewarn("maintain", "h1", "--impact", "freeze")
    forewarn("maintain", "h2", "--impact", "freeze")
    _, second = json.loads(forewarn("rollout", "list", "--json").out)
    options = ("--rollout", second["rollout"])
    assert "host h2" in forewarn("operations", *options).out
    assert "host h1" not in forewarn("operations", *options).out
    (account,) = json.loads(forewarn("history", "--summary", "--json", *options).out)
    assert account["target"] == "h2"
    entries = json.loads(forewarn("history", "--json", *options).out)
    assert all(f"request:{second['rollout']}" in entry["subjects"] for entry in entries)
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
    lines = forewarn("maintian", "h1").err.splitlines()
    choice = "argument COMMAND: invalid choice: 'maintian'"
    assert lines[-1] == f'forewarn: error: {choice} (did you mean "maintain"?)'
    # Fifty commands would hide the error.
    assert forewarn("xyzzy").err.splitlines()[-1].endswith("(--help lists the choices)")
    assert '(did you mean "freeze"?)' in forewarn("maintain", "--impact=freze").err
    ended = forewarn("fleet", "shwo")
    assert ended.err.startswith("usage: forewarn fleet [-h] COMMAND")
    assert '(did you mean "show"?)' in ended.err
