"""Receivers with a missing tenant are logged at the start and after each fleet file."""

import pytest

from forewarn.control.requests import failures, fleet_changes
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import read_fleet
from forewarn.protocol.actors import operator
from forewarn.service.observed import ObservedStore
from forewarn.service.settings import Settings
from forewarn.service.settings_model import WebhookSettings
from forewarn.service.webhooks.commits import Tenants
from tests.unit.admin.gateway import FLEET, LocalGateway

SETTINGS = Settings(
    webhook=tuple(
        WebhookSettings(name=name, url="https://h.example", secret_file="k", tenant=of)
        for name, of in {"all": "", "ours": "shop", "theirs": "mill"}.items()
    )
)
LATER = f'{FLEET}\n[[tenant]]\nname = "mill"\n'


class Started:
    """A gateway whose commits update the known tenants."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.gateway = LocalGateway()
        self.tenants = Tenants(settings)
        self.tenants.load(self.gateway.store)
        self.gateway.plane.store = ObservedStore(
            self.gateway.store, clock=self.gateway.clock, listeners=(self.tenants,)
        )

    def apply(self, text: str) -> None:
        wanted = read_fleet(text, name="fleet.toml")
        self.gateway.plane.order(
            Who(actor=operator("test")),
            lambda work: fleet_changes.apply(work, wanted),
            now=self.gateway.now(),
        )


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines since the last call."""
    messages = [record.getMessage() for record in caplog.records]
    assert {record.levelname for record in caplog.records} <= {"WARNING"}
    caplog.clear()
    return messages


MISSING = "webhook theirs gets no messages: the fleet has no tenant 'mill'"


def test_missing_tenant_is_logged_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = Started()
    assert started.tenants.has("shop")
    assert not started.tenants.has("mill")
    assert said(caplog) == []
    started.tenants.begin()
    assert said(caplog) == [MISSING]


def test_added_tenant_is_no_longer_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = Started()
    started.tenants.begin()
    caplog.clear()
    started.apply(LATER)
    assert started.tenants.has("mill")
    assert said(caplog) == []
    # A deleted tenant is missing from then on.
    started.apply(FLEET)
    assert said(caplog) == [MISSING]


def test_each_fleet_file_without_the_tenant_causes_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = Started()
    started.tenants.begin()
    caplog.clear()
    started.apply(f'{FLEET}\n[[tenant]]\nname = "mil"\n')
    assert said(caplog) == [MISSING]
    order = started.gateway.plane.order
    order(
        Who(actor=operator("test")),
        lambda work: failures.fail_vm(work, "web_0"),
        now=started.gateway.now(),
    )
    assert said(caplog) == []


def test_fleet_file_at_start_causes_no_early_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = Started()
    started.apply(LATER.replace("mill", "mil"))
    assert said(caplog) == []
    started.tenants.begin()
    assert said(caplog) == [MISSING]


def test_receivers_without_tenant_cause_no_checks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = Started(Settings(webhook=SETTINGS.webhook[:1]))
    started.tenants.begin()
    started.apply(LATER)
    assert said(caplog) == []
