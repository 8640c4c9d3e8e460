"""The settings of a service and their defaults.

The classes correspond to the tables of forewarn.toml. Durations are as written in the
file; `policy` divides them by `speed` once. `settings` reads the values, and
`option_table` defines their forms and bounds. A secret is never a setting: settings name
the files that contain secrets.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from forewarn.control.rules.policy import Policy, Subscriber, Timing, divided
from forewarn.control.rules.sightings import SightingAct
from forewarn.instants import SECOND, Micros
from forewarn.protocol.events import EventType
from forewarn.protocol.operations import Action
from forewarn.service.options import WORKS
from forewarn.store.records import EventChange

_NOTICES = (
    *("freeze_notice", "reboot_notice", "redeploy_notice", "preempt_notice"),
    *("terminate_notice", "failure_notice"),
)

_USUAL = Policy()
"""The default policy; the defaults of many settings come from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSettings:
    """[metadata]: the endpoint for VMs."""

    listen: str = "0.0.0.0:8080"
    rate_limit: float = 50.0
    first_answer_delay: Micros = _USUAL.first_answer_delay
    first_events_delay: Micros = _USUAL.first_events_delay
    disable_after: Micros = _USUAL.disable_after
    signed_secret_file: str = ""
    push: bool = False
    push_longest_wait: Micros = 60 * SECOND
    event_details: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """[admin]: the operator API."""

    listen: str = "127.0.0.1:8200"
    token_file: str = ""
    tls_certificate: str = ""
    tls_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """[store]: the database and the retention."""

    url: str = "sqlite:///forewarn.db"
    retention: Micros = _USUAL.retention


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """[policy]: the pace of rollouts."""

    hosts_at_once: int = _USUAL.hosts_at_once


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSettings:
    """[driver.simulated]: the duration of each impact, and injected faults."""

    freeze: Micros = 7 * SECOND
    live_migrate: Micros = 5 * SECOND
    reboot: Micros = 60 * SECOND
    redeploy: Micros = 60 * SECOND
    reimage: Micros = 60 * SECOND
    delete: Micros = 5 * SECOND
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """[driver.command]: the operator's programs, as lists of arguments."""

    freeze: tuple[str, ...] = ()
    live_migrate: tuple[str, ...] = ()
    reboot: tuple[str, ...] = ()
    redeploy: tuple[str, ...] = ()
    reimage: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    observe: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    abortable: tuple[str, ...] = ("live_migrate",)
    parallel: int = 4
    timeout: Micros | None = None
    freeze_timeout: Micros | None = None
    live_migrate_timeout: Micros | None = None
    reboot_timeout: Micros | None = None
    redeploy_timeout: Micros | None = None
    reimage_timeout: Micros | None = None
    delete_timeout: Micros | None = None
    grace: Micros = 10 * SECOND
    records: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """[driver]: the driver that executes operations."""

    kind: str = "simulated"
    timeout: Micros = _USUAL.driver_timeout
    attempts: int = _USUAL.driver_attempts
    retry_delay: Micros = _USUAL.retry_delay
    sightings: tuple[str, ...] = tuple(each.value for each in SightingAct)
    sighting_confirm: Micros = _USUAL.sighting_confirm
    sightings_max: int = _USUAL.sightings_max


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """[log]: the log on standard error."""

    format: str = "auto"
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """[[webhook]]: a receiver of event changes."""

    name: str
    url: str
    secret_file: str
    tenant: str = ""
    types: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    timeout: Micros = 10 * SECOND
    insecure: bool = False
    ca_file: str = ""
    proxy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a service, with the origin of each."""

    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    admin: AdminSettings = field(default_factory=AdminSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    timing: Timing = field(default_factory=Timing)
    policy: PolicySettings = field(default_factory=PolicySettings)
    driver: DriverSettings = field(default_factory=DriverSettings)
    simulated: SimulatedSettings = field(default_factory=SimulatedSettings)
    command: CommandSettings = field(default_factory=CommandSettings)
    log: LogSettings = field(default_factory=LogSettings)
    webhook: tuple[WebhookSettings, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    """Origins by full name, such as `timing.speed`; defaults are absent."""
    warnings: tuple[str, ...] = ()
    """Messages about probable mistakes that do no harm."""


def policy(settings: Settings, *, notice_floor: Micros = 0) -> Policy:
    """Return the policy for decisions, with durations divided by `speed`.

    Notices, the recovery time and the maximum hold time are divided. The retention, the
    time until disabling and the driver's timeouts are not. No notice becomes shorter
    than `notice_floor`.
    """
    timing, metadata, driver = settings.timing, settings.metadata, settings.driver
    floors = dict.fromkeys(_NOTICES, notice_floor)
    sped: dict[str, Any] = {
        name: divided(duration, timing.speed, floor=floors.get(name, 0))
        for name in (*_NOTICES, "recovery", "hold_max")
        if (duration := getattr(timing, name)) is not None
    }
    return Policy(
        **{**asdict(timing), **sped},
        notice_floor=notice_floor,
        hosts_at_once=settings.policy.hosts_at_once,
        first_answer_delay=metadata.first_answer_delay,
        first_events_delay=metadata.first_events_delay,
        disable_after=metadata.disable_after,
        driver_timeout=driver.timeout,
        driver_attempts=driver.attempts,
        retry_delay=driver.retry_delay,
        sighting_acts=frozenset(map(SightingAct, driver.sightings)),
        sighting_confirm=driver.sighting_confirm,
        sightings_max=driver.sightings_max,
        retention=settings.store.retention,
        subscribers=tuple(map(_subscriber, settings.webhook)),
    )


def _subscriber(webhook: WebhookSettings) -> Subscriber:
    every = Subscriber(name=webhook.name)
    return Subscriber(
        name=webhook.name,
        tenant=webhook.tenant,
        types=frozenset(map(EventType, webhook.types)) or every.types,
        changes=frozenset(map(EventChange, webhook.statuses)) or every.changes,
    )


def impacts(settings: Settings, *, floor: Micros = 0) -> dict[Action, Micros]:
    """Return the durations of the simulated driver, divided by `speed`.

    No impact becomes shorter than `floor`.
    """
    simulated = settings.simulated
    return {
        action: divided(getattr(simulated, name), settings.timing.speed, floor=floor)
        for name, action in WORKS.items()
    }
