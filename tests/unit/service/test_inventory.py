"""[inventory]: its settings, and the runs of programs that do not end or print too much."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from forewarn.clock import SystemClock
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.instants import MINUTE, SECOND
from forewarn.protocol.errors import RefusedError
from forewarn.service import checking
from forewarn.service.inventory import Inventory, words_of
from forewarn.service.settings import Settings, SettingsError, load_settings
from forewarn.service.settings_model import InventorySettings, LibvirtSettings
from forewarn.settings.amounts import Amount
from tests.support.loops import in_loop
from tests.support.processes import eventually


def settings_in(directory: Path, text: str) -> Settings:
    file = directory / "forewarn.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file=file, environ={}, flags={})


class Merged:
    """Takes the fleet files of runs, and tells when there are enough."""

    def __init__(self) -> None:
        self.texts: list[FleetText] = []
        self.who: set[Who] = set()
        self.error: Exception | None = None

    async def merge(self, text: FleetText, *, who: Who) -> MergePlan:
        self.texts.append(text)
        self.who.add(who)
        if self.error is not None:
            raise self.error
        return MergePlan(changes=())


async def until(inventory: Inventory, outcome: str, times: int = 1) -> None:
    """Return when this many runs have had an outcome."""

    def runs() -> dict[str, Any]:
        values = inventory.readings()[0].values
        assert isinstance(values, dict)
        return values

    await asyncio.to_thread(
        eventually, runs, lambda found: found[outcome] >= times, what=outcome
    )


def inventory_of(
    program: Iterable[str], *, timeout: int = 60 * SECOND, every: int = SECOND
) -> Inventory:
    settings = Settings(
        inventory=InventorySettings(
            program=tuple(program), timeout=timeout, every=every
        )
    )
    return Inventory(settings, clock=SystemClock())


def test_settings_name_a_program_and_its_limits(tmp_path: Path) -> None:
    text = 'program = ["/bin/true"]\nevery = "1h"\nremovals_max = 7\n'
    assert settings_in(tmp_path, f"[inventory]\n{text}").inventory == InventorySettings(
        program=("/bin/true",), every=60 * MINUTE, removals_max=Amount(value=7)
    )
    assert str(InventorySettings().removals_max) == "2%"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'program = ["a"]\nlibvirt = ["qemu:///system"]',
            "cannot be used with inventory.program",
        ),
        ('libvirt = ["qemu+tls://{host}/system"]', "is not a URI such as"),
        ('libvirt = ["h1"]', "is not a URI such as"),
        ('program = "a"', "must be a list of words"),
        ('every = "10ms"', "at least 1s"),
        ('timeout = "2h"', "at most 1h"),
        ('removals_max = "101%"', "at most 100%"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings_in(tmp_path, f"[inventory]\n{text}\n")


def test_program_that_does_not_exist_is_refused_before_the_start(
    tmp_path: Path,
) -> None:
    settings = settings_in(
        tmp_path,
        '[inventory]\nprogram = ["/no/such"]\n[store]\nurl = "memory://"\n',
    )
    with pytest.raises(SettingsError, match="there is no program /no/such"):
        checking.check(settings)


def test_libvirts_are_asked_by_the_python_of_the_driver() -> None:
    settings = Settings(
        inventory=InventorySettings(
            libvirt=("qemu+ssh://root@h1/system",), timeout=100 * SECOND
        ),
        libvirt=LibvirtSettings(python="/usr/bin/python3"),
    )
    arguments = words_of(settings)
    assert arguments[0] == "/usr/bin/python3"
    # A host that hangs is named before the whole run is too late.
    assert arguments[-3:] == ("discover", "80", "qemu+ssh://root@h1/system")


@in_loop
async def test_large_inventory_is_merged_whole(tmp_path: Path) -> None:
    hosts = [{"name": f"h{number}"} for number in range(400)]
    vms = [{"name": f"v{n}", "host": f"h{n % 400}"} for n in range(6_000)]
    file = tmp_path / "inventory.json"
    file.write_text(json.dumps({"hosts": hosts, "vms": vms}), encoding="utf-8")
    merged, inventory = Merged(), inventory_of(["/bin/cat", str(file)])
    inventory.begin(merged.merge)
    await until(inventory, "unchanged")
    await inventory.end()
    [text, *_] = merged.texts
    assert text.read().count() == {
        "tenants": 1,
        "scopes": 6_000,
        "hosts": 400,
        "vms": 6_000,
    }
    assert (text.name, text.removals_max) == (
        "the inventory of /bin/cat",
        Amount(value=2, is_percent=True),
    )
    assert {who.actor.name for who in merged.who} == {"inventory"}
    assert inventory.troubles() == ()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sleep 600", "/bin/sh did not end in 1 s"),
        ("echo 'no such API' >&2; exit 1", "failed with status 1: no such API"),
        ('echo \'{"hosts": [], "vms": [{"name": "a"}]}\'', ".vms[0]"),
    ],
)
@in_loop
async def test_failed_run_is_a_trouble_until_a_run_succeeds(
    tmp_path: Path, script: str, said: str
) -> None:
    how = tmp_path / "how"
    how.write_text(script, encoding="utf-8")
    merged = Merged()
    inventory = inventory_of(["/bin/sh", str(how)], timeout=SECOND)
    inventory.begin(merged.merge)
    await until(inventory, "failed")
    [trouble] = inventory.troubles()
    assert trouble.startswith("the inventory was not merged at 20")
    assert said in trouble
    assert merged.texts == []
    how.write_text('echo \'{"hosts": [], "vms": []}\'', encoding="utf-8")
    await until(inventory, "unchanged")
    assert inventory.troubles() == ()
    await inventory.end()


@in_loop
async def test_refusal_and_a_bug_of_the_merge_do_not_end_the_runs() -> None:
    merged = Merged()
    inventory = inventory_of(["/bin/echo", '{"hosts": [], "vms": []}'])
    merged.error = RefusedError("the inventory would remove 9 of 9 VMs", hint="Look.")
    inventory.begin(merged.merge)
    await until(inventory, "failed")
    assert inventory.troubles()[0].endswith("would remove 9 of 9 VMs. Look.")
    merged.error = KeyError("vms")
    await until(inventory, "failed", 2)
    assert "a bug in forewarn: 'vms'" in inventory.troubles()[0]
    merged.error = None
    await until(inventory, "unchanged")
    await inventory.end()


@in_loop
async def test_end_kills_the_program_and_starts_no_other(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    inventory = inventory_of(["/bin/sh", "-c", f"echo $$ > {begun}; exec sleep 600"])
    inventory.begin(Merged().merge)
    text = await asyncio.to_thread(
        eventually, lambda: begun.read_text() if begun.exists() else "", bool
    )
    pid = int(text)
    await inventory.end()
    await asyncio.to_thread(
        eventually, lambda: Path(f"/proc/{pid}").exists(), lambda found: not found
    )


@in_loop
async def test_service_without_an_inventory_runs_nothing() -> None:
    inventory = Inventory(Settings(), clock=SystemClock())
    inventory.begin(Merged().merge)
    assert [reading.values for reading in inventory.readings()] == [
        {"applied": 0, "unchanged": 0, "failed": 0},
        0.0,
    ]
    await inventory.end()


@in_loop
async def test_hosts_that_were_not_read_are_a_trouble_of_a_good_run() -> None:
    merged = Merged()
    inventory = inventory_of(
        ["/bin/echo", '{"hosts": [], "vms": [], "unknown_hosts": ["h7: no route"]}']
    )
    inventory.begin(merged.merge)
    await until(inventory, "unchanged")
    [trouble] = inventory.troubles()
    assert trouble == (
        "the inventory could not read h7: no route. Hosts that it lacks, and their VMs, "
        "stay as they are."
    )
    assert merged.texts[0].unknown_hosts == ("h7: no route",)
    assert merged.texts[0].read().unknown_hosts == ("h7: no route",)
    await inventory.end()
