"""The playbook of the page about relays: a host that it has set up answers its guests."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "how-to" / "operate"
RELAYS = (PAGES / "relays.md").read_text(encoding="utf-8")


def fenced(page: str, language: str, part: str) -> str:
    """Return the first block of a page in a language that contains a string."""
    blocks = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    return next(block for block in blocks if part in block)


@pytest.fixture(scope="module")
def play() -> dict[str, Any]:
    [play] = yaml.safe_load(fenced(RELAYS, "yaml", "hypervisors"))
    return play


def written(play: dict[str, Any]) -> dict[str, int]:
    """Return the files that the tasks write, with the places of the tasks."""
    return {
        task["ansible.builtin.copy"]["dest"]: place
        for place, task in enumerate(play["tasks"])
        if "ansible.builtin.copy" in task
    }


def units(play: dict[str, Any], state: str, value: object) -> dict[str, int]:
    """Return the units for which the tasks want a state, with the places of the tasks."""
    return {
        unit["name"]: place
        for place, task in enumerate(play["tasks"])
        if (unit := task.get("ansible.builtin.systemd", {})).get(state) == value
    }


def test_each_file_that_a_host_needs_is_written_before_what_needs_it(
    play: dict[str, Any],
) -> None:
    files, started = written(play), units(play, "state", "started")
    settings = fenced(RELAYS, "toml", "ca_file")
    for path in re.findall(r'_file = "(.*)"', settings):
        assert files[path] < started["forewarn-relay"]
    unit = fenced((PAGES / "connect-guests.md").read_text("utf-8"), "ini", "addresses")
    for path in re.findall(r"/etc/forewarn/\S+", unit):
        assert files[path] < started["forewarn-addresses"]
    assert (
        files["/etc/systemd/system/forewarn-addresses.service"]
        < (started["forewarn-addresses"])
    )
    assert {*units(play, "enabled", True)} == {"forewarn-relay", "forewarn-addresses"}


def test_service_of_the_package_does_not_start_on_a_host(play: dict[str, Any]) -> None:
    [package] = [
        place
        for place, task in enumerate(play["tasks"])
        if "deb" in task.get("ansible.builtin.apt", {})
    ]
    assert units(play, "masked", True)["forewarn"] < package


def test_tools_of_addresses_are_installed_and_a_new_file_is_applied(
    play: dict[str, Any],
) -> None:
    tools = [task.get("ansible.builtin.apt", {}).get("name") for task in play["tasks"]]
    assert ["nftables", "iproute2"] in tools
    handlers = {handler["name"]: handler for handler in play["handlers"]}
    notified = {task["notify"] for task in play["tasks"] if "notify" in task}
    assert notified == {*handlers}
    [apply] = [
        handler["ansible.builtin.command"]
        for handler in play["handlers"]
        if "ansible.builtin.command" in handler
    ]
    assert apply == "forewarn addresses apply /etc/forewarn/addresses.toml"
