"""The relays of the hosts: each answers the guests of its host at 169.254.169.254."""

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from examples.demo_parts.timeline import Timeline
from examples.lab.hosts import RELAY_PORT, Ground, kill_noted

SETTINGS = """\
url = "{url}"
token_file = "{directory}/relay-token"
ca_file = "{certificate}"
listen = "0.0.0.0:{port}"
state = "{directory}/relay.json"
[log]
format = "text"
"""

SHOWN = {
    "since the last run": "answers its guests from what it knew before it was killed",
    "following the service": "follows the service, and answers the guests of {host}",
}
"""The sentences that are shown for lines in the log of a relay."""


class Relays:
    """Starts and kills the relays of hosts."""

    def __init__(self, ground: Ground, timeline: Timeline) -> None:
        """Start nothing yet."""
        self._ground, self._timeline = ground, timeline
        self._started: list[subprocess.Popen[bytes]] = []
        self._shown = dict.fromkeys(ground.hosts, 0)

    def begin(self, url: str, certificate: Path, tokens: Mapping[str, str]) -> None:
        """Start a relay on each host, with its token."""
        for host, token in tokens.items():
            directory = self._ground.directory / host
            text = SETTINGS.format(
                url=url, directory=directory, certificate=certificate, port=RELAY_PORT
            )
            (directory / "relay.toml").write_text(text, "utf-8")
            (directory / "relay-token").write_text(token, "utf-8")
            self.start(host)

    def script(self, host: str) -> Path:
        """Return the script of the shell that becomes the relay of a host."""
        directory = self._ground.directory / host
        inner = [sys.executable, "-m", "forewarn", "relay", "--config"]
        words = [
            *("ip", "netns", "exec", self._ground.hosts[host]),
            *(*inner, str(directory / "relay.toml")),
        ]
        path = directory / "start-relay"
        path.write_text(
            f"echo $$ >{self._noted(host)}\nexec {shlex.join(words)}\n", "utf-8"
        )
        return path

    def _noted(self, host: str) -> Path:
        return self._ground.directory / host / "relay.number"

    def log(self, host: str) -> Path:
        """Return the log of the relay of a host."""
        return self._ground.directory / host / "relay.log"

    def start(self, host: str) -> None:
        """Start the relay of a host."""
        with self.log(host).open("ab") as log:
            self._started.append(
                subprocess.Popen(
                    ["sh", str(self.script(host))],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def restart_lines(self, host: str) -> tuple[str, str]:
        """Return commands of the shell that kill the relay of a host, and start it.

        As after a boot, the guests are led to it first.
        """
        kill = f'kill -9 "$(cat {self._noted(host)})"'
        script, log = self.script(host), self.log(host)
        lead = f"{shlex.join(self._ground.leading_words(host))} >>{log} 2>&1"
        return kill, f"{lead}\nsetsid sh {script} </dev/null >>{log} 2>&1 &"

    def kill(self, host: str) -> None:
        """Kill the relay of a host."""
        kill_noted(self._noted(host), f"{self._ground.directory}/{host}/relay.toml")

    def show_news(self) -> None:
        """Show the new lines of each relay."""
        for host in self._ground.hosts:
            with contextlib.suppress(FileNotFoundError):
                text = self.log(host).read_text("utf-8", "replace")
                lines = text.rpartition("\n")[0].splitlines()
                for line in lines[self._shown[host] :]:
                    self._shown[host] += 1
                    for part, told in SHOWN.items():
                        if part in line:
                            self._timeline.say(
                                f"relay {host}", told.format(host=host), tenant="agent"
                            )

    def end(self) -> None:
        """Kill all relays."""
        for host in self._ground.hosts:
            self.kill(host)
        for process in self._started:
            process.wait()
