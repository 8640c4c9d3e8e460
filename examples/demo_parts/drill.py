"""The simulator in the demo: a drill with a client that fails and one that passes.

`forewarn simulate` runs the drill and checks the client's actions. A build needs only
its exit status. Both clients are real programs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from demo_parts import setting
from demo_parts.timeline import Timeline

EXAMPLES = Path(__file__).resolve().parents[1]
DRILL = "simulator/drill.toml"
FRAGILE = [sys.executable, str(EXAMPLES / "simulator" / "fragile.py")]
CAREFUL = [
    *(sys.executable, str(EXAMPLES / "clients" / "watch.py")),
    *(sys.executable, "-c", "pass"),
]

SPEED = 5
"""The speed: a notice of 30 seconds takes six."""
END_SECONDS = 60
"""Maximum seconds of a drill on a slow machine."""

SHOWN = {"step", "event", "fault", "approved"}


def play(timeline: Timeline) -> None:
    """Run the drill with both clients."""
    timeline.head("6  A drill for your own program: an eviction and two bad answers")
    timeline.check(
        "a client written in a hurry dies of a 500: the drill fails, with status 1",
        seen=_drill("fragile.py", FRAGILE, timeline) == 1,
    )
    timeline.check(
        "one that asks again approves in time: status 0",
        seen=_drill("watch.py", CAREFUL, timeline) == 0,
    )


def _drill(name: str, client: list[str], timeline: Timeline) -> int:
    """Run it with a client, show the steps on the timeline; return the exit status."""
    metadata, admin = setting.free_ports(2)
    words = [
        *("simulate", DRILL, "--speed", str(SPEED)),
        *("--listen", f"127.0.0.1:{metadata}", "--admin", f"127.0.0.1:{admin}"),
    ]
    timeline.say("you", f"$ forewarn simulate drill.toml --speed {SPEED}   ({name})")
    simulator = subprocess.Popen(
        [sys.executable, "-m", "forewarn", *words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=EXAMPLES,
    )
    program: subprocess.Popen[bytes] | None = None
    try:
        assert simulator.stdout is not None
        for line in simulator.stdout:
            told = json.loads(line)
            if told["what"] == "ready":
                program = subprocess.Popen(
                    client,
                    env={
                        **os.environ,
                        "FOREWARN_ENDPOINT": f"http://127.0.0.1:{metadata}",
                    },
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            elif told["what"] in SHOWN:
                timeline.say("simulator", f"  {told['text']}")
        return simulator.wait(END_SECONDS)
    finally:
        if simulator.poll() is None:
            simulator.kill()
        if program is not None:
            program.kill()
            program.wait()
