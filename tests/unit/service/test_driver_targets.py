"""The setting that lets a driver choose the hosts that VMs move to."""

import pytest

from forewarn.service.settings import SettingsError, load_settings, policy

TARGETS = {"driver.targets": "driver", "driver.simulated.target_hosts": "h2 h3"}


def test_driver_chooses_only_if_it_is_set() -> None:
    usual = load_settings(file=None, environ={}, flags={})
    assert not policy(usual).driver_chooses
    settings = load_settings(file=None, environ={}, flags=TARGETS)
    assert policy(settings).driver_chooses
    assert settings.simulated.target_hosts == ("h2", "h3")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"driver.targets": "driver"}, "needs driver.simulated.target_hosts"),
        ({**TARGETS, "policy.reserve": "1"}, "cannot be used with policy.reserve"),
        ({**TARGETS, "driver.simulated.target_hosts": "-h"}, "-h"),
        (
            {
                "driver.targets": "driver",
                "driver.kind": "command",
                "driver.command.redeploy": "/usr/bin/move {vm} {to_host}",
            },
            "has {to_host}, which is empty",
        ),
        (
            {"driver.targets": "driver", "driver.kind": "libvirt"},
            "must be forewarn with the libvirt driver, which chooses no host",
        ),
        (
            {"driver.targets": "driver", "driver.kind": "qemu"},
            "must be forewarn with the qemu driver, which chooses no host",
        ),
    ],
)
def test_settings_that_mean_nothing_together_are_refused(
    flags: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(file=None, environ={}, flags=flags)
    assert message in str(caught.value)
