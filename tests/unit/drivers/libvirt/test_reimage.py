"""The replacement of disks, and crashes between the deletion and the creation of one."""

from pathlib import Path

import pytest

from forewarn.drivers.libvirt.worker import abilities, disks
from forewarn.drivers.libvirt.worker.orders import (
    DONE_STATUS,
    DOWN_STATUS,
    RUNS_STATUS,
)
from tests.support.fake_libvirt.libvirt import RUNNING, SHUTOFF
from tests.unit.drivers.libvirt.living import Living

BY_GUEST = [SHUTOFF, 1]

VOLUME = (
    "<volume><name>{}.qcow2</name><capacity>9</capacity><target>"
    "<format type='qcow2'/></target>{}<used/></volume>"
)
BASE = "<backingStore><path>/base.qcow2</path><format type='qcow2'/></backingStore>"

AFTER_KILL = ("kill-before-create", "kill-in-create")


class Disks:
    """A VM with a system disk, a data disk, and a disk in no pool."""

    def __init__(self, directory: Path, *, base: str = BASE) -> None:
        self.directory = directory
        self.living = Living(directory)
        sources = "".join(
            f"<disk device='disk'><source file='{directory}/{name}.qcow2'/></disk>"
            for name in ("web", "data", "in-no-pool")
        )
        self.living.libvirts.start(
            "web_0", "h1", devices=f"<devices>{sources}</devices>"
        )
        for name in ("web", "data"):
            self.volume(name).write_text(VOLUME.format(name, base))

    def volume(self, name: str) -> Path:
        """Return the file that stands for a volume."""
        return self.directory / f"{name}.qcow2.volume"

    def is_new(self, name: str) -> bool:
        """Return whether a volume is an empty layer above its base image."""
        text = self.volume(name).read_text()
        return "/base.qcow2" in text and "<used/>" not in text

    def noted(self) -> list[disks.Image]:
        """Return the disks that are not replaced yet."""
        domain = self.living.domains.need("web_0", "h1")
        return disks.unfinished(self.living.domains, domain)

    def kill_reimage(self, fault: str) -> None:
        """Let the program of a reimage be killed."""
        (self.directory / fault).touch()
        with pytest.raises(self.living.libvirts.api.KilledError):
            self.living.do("reimage")
        (self.directory / fault).unlink()
        assert self.living.state() == BY_GUEST


@pytest.fixture
def made(tmp_path: Path) -> Disks:
    return Disks(tmp_path)


@pytest.mark.parametrize("is_off", [True, False])
def test_disks_are_created_again_from_their_base_image(
    made: Disks, *, is_off: bool
) -> None:
    if is_off:
        made.living.libvirts.domain("web_0", "h1").shutdown()
    assert made.living.do("reimage") == (DONE_STATUS, [])
    assert made.living.state() == (BY_GUEST if is_off else [RUNNING, 1])
    assert made.is_new("web")
    assert made.is_new("data")
    assert not made.noted()


def test_disk_without_a_base_image_stays(tmp_path: Path) -> None:
    disks = Disks(tmp_path, base="")
    status, said = disks.living.do("reimage")
    assert (status, disks.living.state()[0]) == (RUNS_STATUS, RUNNING)
    assert said[0].startswith("no disk has a base image in a storage pool of libvirt")


def test_lost_connection_is_not_taken_for_a_disk_in_no_pool(
    made: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = made.living.libvirts.api

    def lost(conn: object, path: str) -> None:
        raise api.libvirtError("client socket is closed", 1)

    monkeypatch.setattr(api.virConnect, "storageVolLookupByPath", lost)
    assert made.living.do("reimage")[1][0] == "h1: client socket is closed"


@pytest.mark.parametrize("fault", AFTER_KILL)
def test_killed_reimage_has_failed_with_the_vm_down_and_says_why(
    made: Disks, fault: str
) -> None:
    made.kill_reimage(fault)
    both = f"{made.directory}/web.qcow2, {made.directory}/data.qcow2"
    # The report of a killed program has what it said last.
    assert made.living.said == [f"replacing {both}"]
    assert made.living.probe("reimage") == DOWN_STATUS
    [said] = made.living.probed_text("reimage")
    assert said.startswith("its reimage did not end, and a reboot of the VM creates ")
    assert said.endswith(both)


@pytest.mark.parametrize("fault", AFTER_KILL)
@pytest.mark.parametrize("operation", ["op-1.2", "op-2.1"])
def test_repeated_reimage_creates_all_disks_and_starts_the_vm(
    made: Disks, fault: str, operation: str
) -> None:
    made.kill_reimage(fault)
    assert made.living.do("reimage", operation=operation) == (DONE_STATUS, [])
    assert made.living.state() == [RUNNING, 1]
    assert made.is_new("web")
    assert made.is_new("data")
    assert not made.noted()


@pytest.mark.parametrize("action", ["reboot", "start", "resume"])
def test_missing_disk_is_created_before_the_vm_starts(made: Disks, action: str) -> None:
    made.kill_reimage("kill-before-create")
    assert made.living.do(action, operation="op-2.1")[0] == DONE_STATUS
    assert made.living.state() == [RUNNING, 1]
    assert made.is_new("web")
    # It was not deleted yet.
    assert "<used/>" in made.volume("data").read_text()
    assert not made.noted()


def test_vm_whose_disk_is_missing_cannot_be_live_migrated(made: Disks) -> None:
    made.kill_reimage("kill-before-create")
    domains = made.living.domains
    limits = abilities.limits_of(domains, domains.need("web_0", "h1"))
    assert f"{made.directory}/web.qcow2" in limits["live-migrate"]
    made.living.do("reboot", operation="op-2.1")
    assert abilities.limits_of(domains, domains.need("web_0", "h1")) == {}


def test_missing_disk_is_created_before_the_vm_moves(made: Disks) -> None:
    made.kill_reimage("kill-before-create")
    status, _ = made.living.do("redeploy", operation="op-2.1", to_host="h2")
    assert (status, made.living.state("h2")) == (DONE_STATUS, [RUNNING, 1])
    assert made.is_new("web")


@pytest.mark.parametrize("action", ["reboot", "start", "resume", "redeploy"])
def test_vm_is_not_started_on_a_disk_that_was_written_in_part(
    made: Disks, action: str
) -> None:
    made.kill_reimage("kill-in-create")
    status, said = made.living.do(action, operation="op-2.1", to_host="h2")
    assert (status, made.living.state()) == (DOWN_STATUS, BY_GUEST)
    path = f"{made.directory}/web.qcow2"
    assert said[0] == (
        f"the disk {path} was not written to its end: delete it on h1 with "
        f"`virsh vol-delete {path}`, then reboot the VM"
    )
    made.volume("web").unlink()
    assert made.living.do("reboot", operation="op-3.1")[0] == DONE_STATUS
    assert made.is_new("web")


def test_disk_that_cannot_be_created_is_named_and_created_later(made: Disks) -> None:
    (made.directory / "full").touch()
    status, said = made.living.do("reimage")
    assert (status, made.living.state()) == (DOWN_STATUS, BY_GUEST)
    assert said[0] == (
        "h1: No space left on device; its reimage did not end, and a reboot of the VM "
        f"creates what is missing of {made.directory}/web.qcow2"
    )
    (made.directory / "full").unlink()
    assert made.living.do("reboot", operation="op-2.1")[0] == DONE_STATUS
    assert made.is_new("web")


def test_vm_that_an_operator_repaired_keeps_its_disks(made: Disks) -> None:
    made.kill_reimage("kill-before-create")
    other = VOLUME.format("web", BASE.replace("base", "other"))
    made.volume("web").write_text(other)
    made.living.libvirts.domain("web_0", "h1").create()
    assert made.living.do("reboot", operation="op-2.1")[0] == DONE_STATUS
    assert made.volume("web").read_text() == other
    assert not made.noted()


def test_vm_that_was_off_stays_off_when_its_reimage_is_repeated(made: Disks) -> None:
    made.living.libvirts.domain("web_0", "h1").shutdown()
    made.kill_reimage("kill-before-create")
    assert made.living.do("reimage", operation="op-1.2") == (DONE_STATUS, [])
    assert (made.living.state(), made.is_new("web")) == (BY_GUEST, True)


def test_note_is_read_as_it_was_written() -> None:
    images = [disks.Image(path="/a b&.qcow2", pool="<p>", xml="<volume>'\"</volume>")]
    assert disks.images_in(disks.element_of(images)) == images
    assert disks.images_in("") == []


def test_reimage_of_a_domain_without_a_definition_is_refused(made: Disks) -> None:
    made.living.libvirts.set("web_0", "h1", persistent=False)
    status, said = made.living.do("reimage")
    assert status == RUNS_STATUS
    assert said[0] == "web_0 has no persistent domain, so it would be lost"
