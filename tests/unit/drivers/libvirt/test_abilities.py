"""The limits of a domain, as far as libvirt knows them."""

import pytest

from forewarn.drivers.libvirt.answers import UNKNOWN, abilities_of, answer_in
from forewarn.drivers.libvirt.worker.abilities import bound_device
from forewarn.protocol.abilities import Ability, Able
from forewarn.protocol.operations import Action


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ("", ""),
        ("<disk type='file'/>", ""),
        ("<hostdev mode='subsystem' type='pci'/>", "pci"),
        ("<hostdev mode='subsystem' type='mdev'/>", "mdev"),
        ("<hostdev mode='subsystem' type='usb'/>", ""),
        ("<hostdev type='pci'><teaming type='transient'/></hostdev>", ""),
        ("<interface type='hostdev'/>", "pci"),
        ("<interface type='hostdev'><teaming type='transient'/></interface>", ""),
        ("<interface type='bridge'/><hostdev type='scsi_host'/>", "scsi_host"),
    ],
)
def test_device_that_stays_on_the_host_is_found(devices: str, found: str) -> None:
    assert bound_device(f"<domain><devices>{devices}</devices></domain>") == found


def test_domain_without_devices_has_none() -> None:
    assert bound_device("<domain/>") == ""


def test_limits_of_a_host_are_answers_about_its_vms() -> None:
    answer = answer_in(
        [
            {"vm": "a", "presence": "here", "cannot": {"stop": "no domain"}},
            {"vm": "b", "presence": UNKNOWN},
            {"vm": "c", "presence": "here", "cannot": "nothing"},
        ]
    )
    assert list(abilities_of(["a", "b", "c", "d"], answer)) == [
        Ability(able=Able.YES),
        Ability(able=Able.YES, vm="a"),
        Ability(able=Able.NO, action=Action.STOP, vm="a", reason="no domain"),
        Ability(able=Able.UNKNOWN, vm="b"),
        Ability(able=Able.YES, vm="c"),
        Ability(
            able=Able.UNKNOWN, vm="d", reason="the host has no domain of this name"
        ),
    ]
