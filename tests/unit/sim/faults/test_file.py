"""Faults files: their meaning, and problems with line and key."""

import pytest

from forewarn.sim.faults import syntax
from forewarn.sim.faults.fault import Fault, FaultFileError, Playbook
from forewarn.sim.faults.file import read_faults
from forewarn.sim.faults.player import Player

GOOD = """
[[fault]]
fault = "500 x2"
vm = "web_0"

[[fault]]
playbook = ["500", "500", "timeout", "empty", "ok"]
vm = ["web_1", "web_2"]
loop = true

[[fault]]
kind = "429"
retry_after = 7
times = 3
method = "post"
approval = "taken"
flapping = true
after = "30s"
for = "5m"
on = "all"

[[fault]]
kind = "replace"
status = 418
body = "no"
content_type = "text/html"
headers = { X-Tea = "pot" }
"""


def test_faults_file_supports_lines_lists_and_keys() -> None:
    line, book, keys, own = read_faults(GOOD, name="faults.toml")
    assert line == syntax.parse_playbook("500 x2", vms=["web_0"])
    assert book == syntax.playbook(
        ["500", "500", "timeout", "empty", "ok"], vms=["web_1", "web_2"], loops=True
    )
    text = "429 retry-after 7 x3 post taken flapping after 30s for 5m on all"
    assert keys == Playbook(steps=(syntax.parse_fault(text),))
    replacement = own.steps[0].replacement
    assert replacement.status == 418
    assert replacement.headers == (("X-Tea", "pot"),)
    assert replacement.body == b"no"
    assert own.steps[0] == Fault(kind="replace", replacement=replacement)


def test_problem_has_a_position_and_a_hint() -> None:
    with pytest.raises(FaultFileError) as raised:
        read_faults("", name="f.toml")
    assert raised.value.message == "f.toml: has no [[fault]] table"
    assert "Fix the faults file" in raised.value.hint


def test_unknown_vm_is_reported_with_its_position() -> None:
    text = """[[fault]]
fault = "500"
vm = "web_0"
[[fault]]
vm = ["web_1", "zz"]
fault = "500"
[[fault]]
fault = "503"
vm = "web0"
"""
    player = Player(now=lambda: 0, vms=["web_0", "web_1"])
    with pytest.raises(FaultFileError) as raised:
        player.play_file(read_faults(text, name="f.toml"))
    assert raised.value.message.splitlines() == [
        'f.toml:5: fault.vm: VM "zz" does not exist',
        'f.toml:9: fault.vm: VM "web0" does not exist (did you mean "web_0"?)',
    ]
    assert player.is_idle


def test_all_problems_are_reported_together() -> None:
    text = "[[fault]]\nkind = 'x'\n[[fault]]\nkind = '500'\n[[fault]]\nfault = 'y'\n"
    with pytest.raises(FaultFileError) as raised:
        read_faults(text, name="f.toml")
    assert [problem.line for problem in raised.value.problems] == [2, 6]
