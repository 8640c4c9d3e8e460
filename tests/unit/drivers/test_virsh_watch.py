"""The example that watches VMs with virsh, on a stand-in for virsh."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.drivers.port import Sighting, StopCause
from forewarn.drivers.watch import parse_sighting

pytestmark = [pytest.mark.system, pytest.mark.slow]

EXAMPLE = (
    Path(__file__).resolve().parents[3] / "examples" / "drivers" / "virsh-watch.py"
)

STAND_IN = """#!/bin/sh
at=${3#qemu+ssh://}; at=${at%/system}; shift 3
case "$*" in
"list --name") echo a; echo; ;;
"list --inactive --name") printf 'b\\nc\\nd\\n\\n' ;;
"domstate --reason b") echo "shut off (crashed)" ;;
"domstate --reason c") echo "shut off (shutdown)" ;;
"domstate --reason d") echo "shut off (saved)" ;;
"event --event lifecycle --loop")
    echo "event 'lifecycle' for domain 'a': Stopped Failed"
    echo "event 'lifecycle' for domain 'a': Started Booted"
    echo "event 'lifecycle' for domain e: Suspended Paused"
    echo "event 'lifecycle' for domain e: Stopped Migrated"
    echo "event 'lifecycle' for domain e: Stopped Shutdown"
    echo "event 'lifecycle' for domain f: Resumed Migrated"
    sleep 600 ;;
esac
"""

FAILED, SHUT_DOWN = StopCause.FAILED, StopCause.SHUT_DOWN


def seen(vm: str, *, cause: StopCause = FAILED, text: str = "") -> Sighting:
    return Sighting(vm=vm, running=not text, host="h1", cause=cause, text=text, at=0)


def test_watch_prints_the_present_state_and_each_event(tmp_path: Path) -> None:
    virsh = tmp_path / "virsh"
    virsh.write_text(STAND_IN)
    virsh.chmod(0o755)
    wanted = [
        seen("a"),
        seen("b", text="libvirt: crashed"),
        seen("c", cause=SHUT_DOWN, text="libvirt: shutdown"),
        seen("a", text="libvirt: failed"),
        seen("a"),
        seen("e", cause=SHUT_DOWN, text="libvirt: shutdown"),
        seen("f"),
    ]
    with subprocess.Popen(
        [sys.executable, str(EXAMPLE), "h1"],
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            output = [parse_sighting(process.stdout.readline(), now=0) for _ in wanted]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert output == wanted


def test_each_printed_line_is_a_json_object(tmp_path: Path) -> None:
    # A host that cannot be reached prints nothing.
    virsh = tmp_path / "virsh"
    virsh.write_text('#!/bin/sh\n[ "$3" = qemu+ssh://h1/system ] || exit 1\necho a\n')
    virsh.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, str(EXAMPLE), "h2", "h1"],
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            line = json.loads(process.stdout.readline())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert line == {"vm": "a", "running": True, "host": "h1"}
