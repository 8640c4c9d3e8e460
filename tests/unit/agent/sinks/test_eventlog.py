"""The event log of Windows, by a stand-in for its command."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.eventlog import KIND, text_of
from forewarn.agent.sinks.port import Sink
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND
from tests.support.notes import REBOOT, told_of

FAKE = """#!PYTHON
# A stand-in for eventcreate with the bounds of its documents: types, numbers of 1 to
# 1000, a log and a source, a text.
import json, sys
words = sys.argv[1:]
given = dict(zip(words[::2], words[1::2]))
if set(given) != {"/L", "/SO", "/T", "/ID", "/D"} or len(words) != 10:
    sys.exit("ERROR: Invalid syntax.")
if given["/T"] not in {"ERROR", "WARNING", "INFORMATION"}:
    sys.exit("ERROR: Invalid type.")
if not 1 <= int(given["/ID"]) <= 1000:
    sys.exit("ERROR: Invalid value for /ID.")
if given["/L"] not in {"APPLICATION", "SYSTEM"} or given["/D"].startswith("/"):
    sys.exit("ERROR: Invalid syntax.")
with open("DIRECTORY/entries", "a") as file:
    file.write(json.dumps(given) + "\\n")
print("SUCCESS: An event was created.")
"""

DENIED = """#!/bin/sh
echo 'ERROR: Access is denied.' >&2
exit 1
"""

HANGS = """#!/bin/sh
sleep 2 &
exec sleep 30
"""


def sink_of(directory: Path, program: str, **more: Any) -> Sink:
    command = directory / "eventcreate"
    text = program.replace("PYTHON", sys.executable).replace(
        "DIRECTORY", str(directory)
    )
    command.write_text(text)
    command.chmod(0o755)
    settings = NotifySettings(kind="eventlog", more={"command": str(command), **more})
    return KIND.make(settings, SystemClock())


def entries(directory: Path) -> list[dict[str, str]]:
    return [
        json.loads(line) for line in (directory / "entries").read_text().splitlines()
    ]


@pytest.mark.system
def test_each_kind_has_its_event_id_and_type(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, FAKE, log="system", source="mine")
    assert list(sink.check()) == []
    sink.deliver(1, told_of(NoteKind.WITHHELD, 'no "route" %PATH% & x'))
    sink.deliver(2, told_of(NoteKind.REFUSED))
    sink.deliver(3, told_of(NoteKind.FAILED, notice=None, vm="/T"))
    first, second, third = entries(tmp_path)
    assert (first["/L"], first["/SO"], first["/T"]) == ("SYSTEM", "mine", "ERROR")
    assert (first["/ID"], second["/ID"], third["/ID"]) == ("105", "107", "113")
    assert second["/T"] == "WARNING"
    assert first["/D"].startswith("forewarn: web_0: Reboot not prepared. ")
    assert 'no "route" %PATH% & x' in first["/D"]
    assert f"Event id: {REBOOT.event_id}; Number: 1]" in first["/D"]


def test_text_is_one_line_of_limited_length() -> None:
    hostile = replace(REBOOT, description="x\r\n" * 9_000, resources=("y" * 900,) * 9)
    for kind in NoteKind:
        text = text_of(1, told_of(kind, "z\0" * 9_000, notice=hostile))
        assert text.isprintable()
        assert len(text) <= 4_000


@pytest.mark.system
def test_failing_hanging_or_missing_command_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match="Access is denied") as raised:
        sink_of(tmp_path, DENIED).deliver(1, told_of())
    assert raised.value.may_pass
    with pytest.raises(DeliveryError, match=r"did not end within 0\.1 s"):
        sink_of(tmp_path, HANGS, timeout=100 * MILLISECOND).deliver(1, told_of())
    settings = NotifySettings(kind="eventlog")
    assert KIND.name(settings) == "eventlog application forewarn-agent"
    usual = KIND.make(settings, SystemClock())
    assert list(usual.check()) == [
        "there is no program eventcreate: it is part of Windows"
    ]
    with pytest.raises(DeliveryError, match="No such file"):
        usual.deliver(1, told_of())
