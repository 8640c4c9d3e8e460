"""Files of faults: what they mean, and problems with line and key."""

import pytest

from forewarn.sim.faults import syntax
from forewarn.sim.faults.errors import FaultFileError
from forewarn.sim.faults.fault import Fault, Playbook
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


def test_a_file_has_lines_lists_and_keys() -> None:
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


WRONG = {
    "": "f.toml: has no [[fault]] table",
    "x = [": "f.toml:1: this is not TOML: Invalid value",
    '[[falt]]\nkind = "500"': "f.toml:1: falt: is no table of this file "
    '(did you mean "fault"?)',
    "[[fault]]\nvm = 'a'": "f.toml:1: fault: needs one of fault, playbook and kind",
    "[[fault]]\nplaybok = []": "f.toml:2: fault.playbok: is no key of a fault "
    '(did you mean "playbook"?)',
    "[[fault]]\nfault = '500'\nkind = '500'": "f.toml:3: fault.kind: needs one of",
    "[[fault]]\nfault = '500 twice'": 'f.toml:2: fault.fault: "twice" does not belong',
    "[[fault]]\nplaybook = ['500', 'timout']": "f.toml:2: fault.playbook: "
    '"timout" is no kind of fault (did you mean "timeout"?)',
    "[[fault]]\nplaybook = [500]": "f.toml:2: fault.playbook: must be text, such as",
    "[[fault]]\nplaybook = []": "f.toml:2: fault.playbook: must be a list of faults",
    "[[fault]]\nkind = '500'\n\ntimes = 0": "f.toml:4: fault.times: must be a whole",
    "[[fault]]\nkind = '500'\ntime = 2": "f.toml:3: fault.time: does not belong to "
    '"500" (did you mean "times"?)',
    "[[fault]]\nkind = '500'\nloop = true": "f.toml:3: fault.loop: must be true or",
    "[[fault]]\nkind = 'delay'": "f.toml:1: fault.by: is missing: write delay 3s",
    "[[fault]]\nkind = '500'\nvm = 3": "f.toml:3: fault.vm: must be the name of a VM",
    "[[fault]]\nkind = '500'\nbody = 'x'": "f.toml:3: fault.body: belongs to kind = ",
    "[[fault]]\nkind = 'replace'\nstatus = 99": "f.toml:3: fault.status: must be a",
    "[[fault]]\nkind = 'replace'\nheaders = {Content-Length = '1'}": "f.toml:3: "
    'fault.headers: "Content-Length" cannot be set',
    "[[fault]]\nkind = 'replace'\nheaders = {A = \"b\\nc\"}": "f.toml:3: "
    'fault.headers: "A" must be plain text',
    "fault = 3": "f.toml: has no [[fault]] table",
    "fault = [3]": "f.toml:1: fault: must be a table: [[fault]]",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_has_its_place(text: str) -> None:
    with pytest.raises(FaultFileError) as raised:
        read_faults(text, name="f.toml")
    assert raised.value.message.startswith(WRONG[text])
    assert "mend the file" in raised.value.hint


def test_a_vm_that_is_not_there_has_its_place_too() -> None:
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


def test_all_that_is_wrong_is_told_together() -> None:
    text = "[[fault]]\nkind = 'x'\n[[fault]]\nkind = '500'\n[[fault]]\nfault = 'y'\n"
    with pytest.raises(FaultFileError) as raised:
        read_faults(text, name="f.toml")
    assert [each.line for each in raised.value.problems] == [2, 6]
