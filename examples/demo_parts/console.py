"""The console at the end of the demo: a campaign that goes on until Ctrl-C.

A service of its own has hosts in clusters and racks, and work for some minutes.
"""

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

CLUSTERS = ("a", "b")
RACKS = 4
HOSTS = 5
"""Hosts of each rack: one VM of each tenant runs on each."""
TENANTS = ("shop", "bank")

NAME = "kernel-6.12"

OFFER = "To see a campaign in a browser, with its service: make demo CONSOLE=1"
OPENED = f"Campaign {NAME} runs for you to watch: the link to the console is below."

SETTINGS = """\
[metadata]
listen = ""

[admin]
listen = "127.0.0.1:{port}"

[store]
url = "sqlite:///{directory}/watched.db"

[timing]
speed = 60                      # 15 minutes of notice take 15 seconds
"""

CAMPAIGN = f"""\
[campaign]
name = "{NAME}"
reason = "a new kernel for all hosts"
impact = "reboot"
select = {{ all = true }}
budget = {{ in_flight = 6 }}
stage = [{{ hosts = 4 }}, {{ hosts = 12 }}]
"""


def prepare(directory: Path, *, port: int) -> None:
    """Write the fleet, the settings and the campaign of a service at a port."""
    directory.mkdir()
    (directory / "fleet.toml").write_text(_fleet())
    (directory / "forewarn.toml").write_text(
        SETTINGS.format(port=port, directory=directory)
    )
    (directory / "kernel.toml").write_text(CAMPAIGN)


def _fleet() -> str:
    lines = [f'[[tenant]]\nname = "{tenant}"' for tenant in TENANTS]
    for number in range(HOSTS):
        lines += [
            f'[[scope]]\nname = "{tenant}-{number}"\ntenant = "{tenant}"\n'
            'kind = "availability-set"'
            for tenant in TENANTS
        ]
    for rack in (
        f"{cluster}{1 + number}" for cluster in CLUSTERS for number in range(RACKS)
    ):
        for number in range(HOSTS):
            host = f"{rack}-{1 + number}"
            lines.append(
                f'[[host]]\nname = "{host}"\ncluster = "{rack[0]}"\nrack = "{rack}"\n'
                "capacity = 4"
            )
            lines += [
                f'[[vm]]\nname = "{tenant}-{host}"\nhost = "{host}"\n'
                f'scope = "{tenant}-{number}"'
                for tenant in TENANTS
            ]
    return "\n".join(lines) + "\n"


def begin(ask: Callable[..., Any]) -> None:
    """Start the campaign; `ask` runs a command and returns its JSON."""
    plan = ask("campaign", "plan", "kernel.toml")
    ask("campaign", "start", "kernel.toml", "--plan", plan["digest"])


def stay(show_link: Callable[[], None], *, url: str) -> None:
    """Show the link to the console of the service at `url`, and wait for Ctrl-C."""
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        show_link()
        print(
            "\nLet a VM fail in another terminal, and see it there:\n"
            "  . .venv/bin/activate\n"
            f"  FOREWARN_URL={url} forewarn fail shop-b4-5\n"
            "Ctrl-C ends it, and removes its files.",
            flush=True,
        )
        signal.pause()
