"""Tests of the channel: verbs, the order of answers, and errors as values."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from forewarn.testing import channel
from forewarn.testing.channel import VERBS, Verb, Worlds
from forewarn.testing.client import HttpClient
from forewarn.testing.messages import Message
from tests.support import recordings
from tests.support.open_files import no_more_files
from tests.support.processes import PATIENCE_SECONDS, http
from tests.support.programs import Program

GUIDE = Path(__file__).parents[3] / "docs" / "reference" / "testkit.md"


class Talk:
    """A client of the channel."""

    def __init__(self) -> None:
        """Begin without worlds."""
        self.worlds = Worlds()

    def say(self, verb: str, **keys: Any) -> dict[str, Any]:
        """Return the answer to a line."""
        return channel.answer(self.worlds, json.dumps({"do": verb, **keys}))

    def done(self, verb: str, **keys: Any) -> dict[str, Any]:
        """Return the answer to a line that must succeed."""
        answer = self.say(verb, **keys)
        assert answer.pop("ok"), answer
        return answer


@pytest.fixture
def talk() -> Iterator[Talk]:
    talk = Talk()
    yield talk
    talk.worlds.close()


def test_channel_answers_a_sequence_of_messages() -> None:
    lines = [
        '{"do":"world","vms":2,"clock":"virtual"}',
        "",
        '{"do":"reboot","vm":"web_0","notice":"2s","id":7}',
        '{"do":"advance","by":2}',
        '{"do":"events"}',
    ]
    messages: list[str] = []
    before = set(threading.enumerate())
    channel.serve(lines, messages.append)
    begun, nothing, rebooted, advanced, listed = map(json.loads, messages)
    assert [vm["name"] for vm in begun["vms"]] == ["web_0", "web_1"]
    assert begun["hosts"] == ["h0", "h1", "spare"]
    assert nothing["error"] == "an empty line is not a request"
    assert rebooted["id"] == 7
    assert rebooted["event"]["EventType"] == "Reboot"
    assert advanced == {"ok": True}
    [event] = listed["events"]
    assert (event["EventId"], event["status"]) == (
        rebooted["event"]["EventId"],
        "Started",
    )
    # Threads of other tests may end meanwhile, and those of the world take a moment.
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), thread


@pytest.mark.parametrize(
    ("order", "event_type"),
    [
        ({"do": "reboot", "vm": "web_0"}, "Reboot"),
        ({"do": "redeploy", "vm": "web_0", "description": "Now."}, "Redeploy"),
        ({"do": "freeze", "vm": "web_0", "duration": 3}, "Freeze"),
        ({"do": "live_migrate", "vm": "web_0"}, "Freeze"),
        ({"do": "preempt", "vm": "web_0"}, "Preempt"),
        ({"do": "evict", "vms": ["web_0"]}, "Preempt"),
        ({"do": "terminate", "vms": ["web_0", "web_1"]}, "Terminate"),
        ({"do": "maintain", "vm": "web_0", "impact": "reboot"}, "Reboot"),
        ({"do": "maintain", "hosts": ["h0"], "impact": "redeploy"}, "Redeploy"),
        ({"do": "predict_failure", "vm": "web_0", "ahead": "1d"}, "Redeploy"),
        ({"do": "fail", "name": "h0"}, "Reboot"),
        ({"do": "event", "vm": "web_0", "type": "Freeze", "migrates": True}, "Freeze"),
        ({"do": "event", "vms": "web_0", "type": "Reboot", "source": "User"}, "Reboot"),
    ],
)
def test_request_creates_its_event(
    talk: Talk, order: dict[str, Any], event_type: str
) -> None:
    talk.done("world", clock="virtual")
    answer = talk.done(**{"verb": order.pop("do"), **order})
    event = answer["event"] if "event" in answer else answer["events"][0]
    assert (event["EventType"], event["vms"]) == (event_type, ["web_0"])


def test_request_for_several_vms_has_the_options_of_one_vm(talk: Talk) -> None:
    talk.done("world", clock="virtual")
    for whom in ({"vm": "web_0"}, {"vms": ["web_1", "web_2"]}):
        answer = talk.done("preempt", **whom, notice="9s", description="Now.")
        for event in answer.get("events") or [answer["event"]]:
            assert event["Description"] == "Now."


def test_shortage_of_open_files_is_reported_as_a_machine_error(talk: Talk) -> None:
    talk.done("world", world="first")
    with no_more_files():
        answer = talk.say("world")
    assert (answer["kind"], answer["ok"]) == ("machine", False)
    assert "Too many open files" in answer["error"]
    assert "`ulimit -n`" in answer["hint"]


def test_scenario_name_can_set_the_speed(talk: Talk) -> None:
    name = "User Reboot Dev Timing"
    talk.done("world", clock="virtual", scenario=name, expect="none")
    talk.done("wait_for_scenario")
    # NotBefore is on a whole second.
    assert "2030-01-01T00:00:2" in talk.done("now")["now"]


def test_verbs_move_an_event_through_its_statuses(talk: Talk) -> None:
    talk.done("world", clock="virtual", seed=0)

    def ordered() -> str:
        return talk.done("reboot", vm="web_0")["event"]["EventId"]

    event = ordered()
    assert talk.done("status", event=event)["event"]["status"] == "Scheduled"
    assert talk.done("assert_not_approved", event=event)
    assert talk.done("approve", event=event, vm="web_0")["event"]["status"] == "Started"
    assert talk.done("assert_approved", event=event, by="web_0", within="1s")
    assert talk.done("wait_for_approval", event=event)["by"] == "web_0"
    assert talk.done("recover", event=event)["event"]["status"] == "Started"
    assert talk.done("finish", event=event)["event"]["status"] == "Removed"
    event = ordered()
    assert talk.done("start", event=event)["event"]["status"] == "Started"
    assert talk.done("wait_until", event=event, status="Started", timeout="1s")
    talk.done("advance", by="1h")
    event = ordered()
    assert talk.done("cancel", event=event)["event"]["status"] == "Cancelled"
    assert talk.done("assert_status", event=event, status="Cancelled")


def test_requests_of_a_program_can_be_awaited_and_asserted(talk: Talk) -> None:
    [vm] = talk.done("world", vms=1, profile="strict")["vms"]
    program = Program(vm["environment"]["FOREWARN_ENDPOINT"])
    event = talk.done("freeze", vm="web_0")["event"]["EventId"]
    talk.done("withhold", vms=["web_0"])
    with program.running():
        awaited = talk.done("wait_for_requests", vm="web_0", count=1)["requests"]
        assert awaited[0]["method"] in {"GET", "POST"}
        assert talk.done("wait_for_approval", event=event, timeout=10)["by"] == "web_0"
    assert talk.done("status", event=event)["event"]["status"] == "Scheduled"
    talk.done("release")
    assert talk.done("status", event=event)["event"]["status"] == "Started"
    requests = talk.done("journal")["requests"]
    later = talk.done("journal", vm="web_0", since=requests[0]["number"])["requests"]
    assert later == requests[1:]
    assert talk.done("assert_no_deviations", but=["too-often", "again"]) == {}
    assert isinstance(talk.done("deviations")["deviations"], list)
    talk.done("faults", faults="503")
    assert http(vm["events_url"])[0] == 503
    talk.done("clear_faults")
    assert (
        talk.done("document", vm="web_0")["document"]["Events"][0]["EventId"] == event
    )


def test_test_can_control_time_and_fleet(talk: Talk) -> None:
    talk.done("world", clock="virtual", settings={"timing.recovery": "1m"})
    assert talk.done("now") == {"now": "2030-01-01T00:00:00+00:00"}
    talk.done("pause")
    talk.done("resume")
    talk.done("reboot", vm="web_0")
    assert talk.done("step")["seconds"] == 900
    assert talk.done("add_vm", vm="late", spot=True)["name"] == "late"
    talk.done("remove_vm", vm="late")
    talk.done("fail", name="web_1")
    talk.done("restore", name="web_1")
    assert len(talk.done("vms")["vms"]) == 4
    talk.done("advance", by="1d")
    assert talk.done("run_scenario", name="user-reboot", expect="none") == {}


def test_worlds_are_separated_by_name(talk: Talk) -> None:
    talk.done("world", world="a", vms=1)
    begun = talk.done(
        "world", world="b", vms=1, scenario="user-reboot", clock="virtual"
    )
    talk.done("reboot", world="a", vm="web_0")
    with Program(begun["vms"][0]["url"]).running():
        assert talk.done("wait_for_scenario", world="b", timeout="50s") == {}
    assert len(talk.done("events", world="a")["events"]) == 1
    talk.done("close", world="a")
    assert not talk.say("events", world="a")["ok"]
    talk.done("world", world="b", vms=2)
    assert len(talk.done("vms", world="b")["vms"]) == 2


@pytest.mark.slow
def test_operator_api_url_is_returned(talk: Talk) -> None:
    talk.done("world", vms=1)
    url = talk.done("api_url")["url"]
    assert http(f"{url}/v1/events")[0] == 200


@pytest.mark.parametrize(
    ("line", "kind", "error"),
    [
        ("nonsense", "usage", "the line is not JSON"),
        (" \n", "usage", "an empty line is not a request"),
        ("[]", "usage", "one JSON object"),
        ("{}", "usage", "'do' is missing: it must be a string"),
        (
            '{"do":"dance"}',
            "usage",
            "there is no verb 'dance' (did you mean \"advance\"?)",
        ),
        ('{"do":"events","world":"other"}', "usage", "there is no world 'other'"),
        ('{"do":"reboot","vm":"web_0","x":1}', "usage", "reboot has no 'x'"),
        ('{"do":"reboot"}', "usage", "'vm' is missing: it must be a string"),
        ('{"do":"reboot","vm":"web_9"}', "refused", 'no VM "web_9"'),
        ('{"do":"reboot","vm":"web_0","notice":true}', "usage", "'notice' must be"),
        (
            '{"do":"reboot","vm":"web_0","notice":"x"}',
            "refused",
            "notice must be a length",
        ),
        ('{"do":"advance"}', "usage", "'by' is missing"),
        ('{"do":"status","event":"x"}', "refused", 'no event "X"; known: none'),
        (
            '{"do":"world","vms":"2"}',
            "usage",
            "'vms' must be a whole number, not \"2\"",
        ),
        ('{"do":"world","together":1}', "usage", "'together' must be true or false"),
        ('{"do":"world","speed":"fast"}', "usage", "'speed' must be a number"),
        ('{"do":"world","settings":[]}', "usage", "'settings' must be an object"),
        ('{"do":"world","settings":{"a":1}}', "usage", "'settings' must be an object"),
        ('{"do":"world","vms":0}', "refused", "1 to 10000 VMs"),
        ('{"do":"world","fleet":"/nowhere/f.toml"}', "machine", "No such file"),
        (
            '{"do":"event","vm":"web_0","vms":["web_1"],"type":"Freeze"}',
            "usage",
            "event takes 'vm' or 'vms', not both",
        ),
        (
            '{"do":"evict","vm":"web_0","vms":["web_1"]}',
            "usage",
            "evict takes 'vm' or 'vms', not both",
        ),
        (
            '{"do":"maintain","vm":"web_0","hosts":["h0"],"impact":"freeze"}',
            "usage",
            "maintain takes 'vm' or 'hosts', not both",
        ),
        ('{"do":"world","speed":0}', "refused", "speed must be a number above 0"),
        ('{"do":"terminate","vms":[1]}', "usage", "'vms' must be a list"),
        ('{"do":"terminate","vms":{}}', "usage", "'vms' must be a list"),
        ('{"do":"wait_for_requests","timeout":0}', "failed", "made 0 requests"),
        (
            '{"do":"maintain","hosts":["h0"],"impact":"freeze","notice":1}',
            "usage",
            "'notice' needs 'vm'",
        ),
    ],
)
def test_error_is_a_value(talk: Talk, line: str, kind: str, error: str) -> None:
    talk.done("world", clock="virtual")
    answer = channel.answer(talk.worlds, line)
    assert (answer["ok"], answer["kind"]) == (False, kind)
    assert error in answer["error"]


@pytest.mark.parametrize("key", ["fleet", "faults", "scenario"])
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("latin.toml", "is not UTF-8"),
        ("a\0b.toml", "is not a valid file name"),
        ("\ud800.toml", "is not a valid file name"),
    ],
)
def test_file_error_is_a_value(
    talk: Talk, tmp_path: Path, key: str, name: str, error: str
) -> None:
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    answer = talk.say("world", clock="virtual", **{key: f"{tmp_path}/{name}"})
    assert (answer["ok"], answer["kind"]) == (False, "refused")
    assert error in answer["error"]


def test_failed_start_of_a_world_keeps_the_current_one(talk: Talk) -> None:
    talk.done("world", clock="virtual", seed=0)
    event = talk.done("reboot", vm="web_0")["event"]["EventId"]
    for wrong in ({"vms": 0}, {"vms": "2"}, {"faults": "nonsense"}, {"vsm": 2}):
        assert not talk.say("world", clock="virtual", **wrong)["ok"]
    assert talk.done("status", event=event)["event"]["status"] == "Scheduled"
    talk.done("world", clock="virtual")
    assert not talk.say("status", event=event)["ok"]


def test_a_recording_is_replayed(talk: Talk, tmp_path: Path) -> None:
    file = recordings.write(tmp_path / "life.jsonl", recordings.life())
    world = talk.done("world", replay=str(file), clock="virtual")
    assert world["hosts"] == []
    program = Program(world["vms"][0]["url"])
    talk.done("advance", by="10s")
    event = talk.done("wait_for_event", type="Freeze", vm="web_0")["event"]["EventId"]
    answer = talk.say("assert_approved", event=event, by="web_0")
    assert (answer["kind"], answer["error"].partition("\n")[0][-15:]) == (
        "failed",
        "is not approved",
    )
    assert program.look() == [event]
    assert talk.done("assert_approved", event=event, by="web_0")
    talk.done("advance", by="2m")
    [shown] = talk.done("wait_for_replay")["events"]
    assert (shown["EventId"], shown["status"]) == (event, "Removed")
    answer = talk.say("reboot", vm="web_0")
    assert answer["kind"] == "refused"
    assert "replays a recording" in answer["error"]
    answer = talk.say("world", replay=str(file), scenario="rollout")
    assert answer["error"] == "scenario cannot be combined with replay"
    assert talk.say("wait_for_event", type="Reboot", timeout=0)["kind"] == "failed"


def test_names_of_rules_must_match_exactly(talk: Talk) -> None:
    [vm] = talk.done("world", vms=1, profile="strict", but="path")["vms"]
    assert http(f"{vm['url']}/metadata/x")[0] == 404
    answer = talk.say("assert_no_deviations", but=["path-case", "pat"])
    assert (answer["kind"], answer["error"][:20]) == ("refused", 'there is no rule "pa')
    assert "known: http, forwarded, header, path, " in answer["error"]
    assert talk.say("assert_no_deviations", but="path-case")["kind"] == "failed"
    assert talk.done("assert_no_deviations", but="path") == {}


def test_fault_can_be_a_number(talk: Talk) -> None:
    [vm] = talk.done("world", vms=1)["vms"]
    talk.done("faults", faults=404)
    assert http(vm["events_url"])[0] == 404
    answer = talk.say("faults", faults="500", vm="web_9")
    assert answer["error"] == (
        'there is no VM "web_9" (did you mean "web_0"?); known: web_0'
    )


def test_missing_file_error_names_the_search_directory(talk: Talk) -> None:
    answer = talk.say("world", fleet="nowhere.toml")
    assert (answer["kind"], answer["error"][:9]) == ("machine", "[Errno 2]")
    assert answer["hint"] == f"'nowhere.toml' is relative to {Path.cwd()}"


def test_infinite_speed_is_refused(talk: Talk) -> None:
    answer = talk.say("world", clock="virtual", speed=int("9" * 400))
    assert answer["kind"] == "refused"
    assert "speed must be a number above 0" in answer["error"]


def test_bug_in_forewarn_is_returned_as_a_value_and_logged(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(_worlds: Worlds, _message: Message) -> dict[str, Any]:
        raise ZeroDivisionError

    talk.done("world", clock="virtual")
    monkeypatch.setitem(VERBS, "now", Verb(keys=(), run=breaks))
    answer = talk.say("now", id=3)
    assert (answer["kind"], answer["id"]) == ("bug", 3)
    assert "ZeroDivisionError" in caplog.text
    assert talk.done("vms")["vms"]


NASTY = [
    *(None, True, False, 0, 1, -1, 7, 2**70, 0.5, 1e999, float("nan"), -0.0),
    *("", "web_0", "h0", "x", "15m", "-3s", "Freeze", "reboot", "Started", "\ud800"),
    *([], ["web_0"], ["web_0", "web_0"], [1], {}, {"a": "b"}, {"timing.speed": "0"}),
    *("500 x2", "virtual", "[[vm]]", "user-reboot.toml", "\0", "A" * 4000),
]
"""Values of every form, including valid ones for some verbs."""


WAITING = frozenset({"timeout", "during"})
"""Keys that would make this test wait."""


@st.composite
def a_line(draw: st.DrawFn) -> dict[str, Any]:
    verb = draw(st.sampled_from(sorted(VERBS.keys() - {"api_url"})))
    line: dict[str, Any] = {"do": verb}
    for key in VERBS[verb].keys:
        if key in WAITING:
            line[key] = 0
        elif key != "scenario" and draw(st.booleans()):
            line[key] = draw(st.sampled_from(NASTY))
    return line


@pytest.mark.slow
@hypothesis.given(lines=st.lists(a_line(), max_size=8))
def test_invalid_line_does_not_end_the_channel(lines: list[dict[str, Any]]) -> None:
    begin = {"do": "world", "clock": "virtual", "vms": 1}
    messages: list[str] = []
    channel.serve(map(json.dumps, [begin, *lines]), messages.append)
    assert len(messages) == len(lines) + 1
    answers = [json.loads(line) for line in messages]
    assert all(isinstance(answer["ok"], bool) for answer in answers)
    assert not [answer for answer in answers if answer.get("kind") == "bug"]


def test_every_verb_is_documented_with_its_keys() -> None:
    _, _, verbs = GUIDE.read_text(encoding="utf-8").partition("## Verbs")
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", verbs, re.MULTILINE)
    documented = {verb: tuple(re.findall(r"`(\w+)`", keys)) for verb, keys in rows}
    assert documented == {name: verb.keys for name, verb in VERBS.items()}


def test_vms_of_a_world_have_the_requested_names() -> None:
    messages: list[str] = []
    begin = {"do": "world", "names": ["zeus", "alpha"], "scenario": "user-reboot"}
    channel.serve([json.dumps({**begin, "expect": "none"})], messages.append)
    [answer] = map(json.loads, messages)
    assert [vm["name"] for vm in answer["vms"]] == ["zeus", "alpha", "web_2"]


UNSEEN = {"scenario": "spot-preemption", "expect": "approved"}
"""A world without clients."""


def _deviate(told: dict[str, Any]) -> None:
    HttpClient(told["vms"][0]["url"], timeout_seconds=5).ask("GET", "/metadata/nothing")


def test_a_world_is_judged_when_it_is_closed(talk: Talk, tmp_path: Path) -> None:
    file = tmp_path / "life.jsonl"
    recordings.write(file, recordings.life())
    for keys in (UNSEEN, {"replay": str(file), "expect": "asked"}):
        talk.done("world", **keys)
        assert talk.say("judge")["kind"] == "failed"
        answer = talk.say("close")
        assert answer["kind"] == "failed"
        assert re.search("a client asks for|no client asked for", answer["error"])
        assert talk.say("close")["error"] == "there is no world ''"
    _deviate(talk.done("world", vms=1, profile="strict"))
    assert "clients deviated from the protocol" in talk.say("close")["error"]
    talk.done("world", **UNSEEN)
    talk.done("close", judge=False)


def test_a_world_is_judged_when_another_replaces_it(talk: Talk) -> None:
    talk.done("world", **UNSEEN)
    answer = talk.say("world", vms=1)
    assert answer["kind"] == "failed"
    assert "a client asks for its events" in answer["error"]
    assert answer["hint"].startswith("This expectation belongs to the previous world,")
    assert talk.say("vms")["kind"] == "usage"
    talk.done("world", vms=1)
    talk.done("close")


def test_end_of_the_input_judges_open_worlds() -> None:
    lines = [
        {"do": "world", "world": "a", **UNSEEN},
        {"do": "world", "world": "b", "vms": 1},
        {"do": "world", "world": "c", **UNSEEN},
        {"do": "close", "world": "c", "judge": False},
    ]
    answers: list[str] = []
    [unseen] = channel.serve(map(json.dumps, lines), answers.append)
    assert [json.loads(answer)["ok"] for answer in answers] == [True] * 4
    assert unseen.startswith("world 'a': ")
    assert "a client asks for its events" in unseen


def test_assertions_about_a_vm_use_its_name(talk: Talk) -> None:
    url = talk.done("world", vms=1)["vms"][0]["url"]
    assert talk.say("assert_asked", vm="web_0")["kind"] == "failed"
    talk.done("assert_approved_nothing", vm="web_0")
    talk.done("reboot", vm="web_0")
    Program(url).look()
    talk.done("assert_asked", vm="web_0")
    assert talk.say("assert_asked", vm="web_0", at_least=9)["kind"] == "failed"
    assert talk.say("assert_approved_nothing", vm="web_0")["kind"] == "failed"


def test_expectation_without_a_scenario_is_refused(talk: Talk) -> None:
    for keys in ({"expect": "approved"}, {"scenario": ""}, {"replay": ""}):
        assert talk.say("world", **keys)["kind"] == "refused"
    talk.done("world", scenario=None, expect=None, vms=1)
