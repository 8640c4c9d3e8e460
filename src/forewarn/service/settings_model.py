"""The settings of a service and their defaults.

The classes correspond to the tables of forewarn.toml. Durations are as written in the
file; `policy` divides them by `speed` once. `settings` reads the values, and
`option_table` defines their forms and bounds. A secret is never a setting: settings name
the files that contain secrets.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from forewarn.cluster.times import LEASE
from forewarn.control.rules.policy import (
    BrakeLimits,
    Policy,
    Subscriber,
    Timing,
    divided,
)
from forewarn.control.rules.sightings import SightingAct
from forewarn.fleet.sources import REMOVALS_MAX, removals_of
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.events import EventType
from forewarn.protocol.host_steps import STEP_TIMEOUT, StepRule, StepRules
from forewarn.protocol.operations import Action
from forewarn.service.options import WORKS
from forewarn.settings.amounts import Amount
from forewarn.store.notices import NoticeKind
from forewarn.store.records import EventChange

_NOTICES = (
    *("freeze_notice", "reboot_notice", "redeploy_notice", "preempt_notice"),
    *("terminate_notice", "failure_notice"),
)

ALL_NOTICES = "all"
"""The word for all notices in `notices` of [[webhook]]."""

REMOVALS_USUAL = removals_of(REMOVALS_MAX)

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


_LEASE: Micros = round(LEASE * SECOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """[store]: the database and the retention."""

    url: str = "sqlite:///forewarn.db"
    retention: Micros = _USUAL.retention


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """[cluster]: this replica of the service."""

    name: str = ""
    lease: Micros = _LEASE
    url: str = ""
    metadata_url: str = ""
    ca_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """[policy]: the pace and the reserve of rollouts, and the verification of steps."""

    hosts_at_once: int = _USUAL.hosts_at_once
    reserve: Amount = _USUAL.reserve
    verify_times: int = _USUAL.verify_times
    verify_within: Micros = _USUAL.verify_within
    answers_within: Micros = _USUAL.answers_within


TARGETS_FOREWARN = "forewarn"
"""Value of `driver.targets`: forewarn chooses the hosts that VMs move to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSettings:
    """[driver.simulated]: the duration of each impact, and injected faults."""

    freeze: Micros = 7 * SECOND
    live_migrate: Micros = 5 * SECOND
    reboot: Micros = 60 * SECOND
    redeploy: Micros = 60 * SECOND
    reimage: Micros = 60 * SECOND
    delete: Micros = 5 * SECOND
    pause: Micros = SECOND
    resume: Micros = SECOND
    stop: Micros = 30 * SECOND
    start: Micros = 30 * SECOND
    host_step: Micros = 60 * SECOND
    target_hosts: tuple[str, ...] = ()
    marks: bool = True
    faults: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """[driver.command]: the operator's programs, as lists of arguments."""

    freeze: tuple[str, ...] = ()
    live_migrate: tuple[str, ...] = ()
    reboot: tuple[str, ...] = ()
    redeploy: tuple[str, ...] = ()
    reimage: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    observe: tuple[str, ...] = ()
    observe_many: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    abilities: tuple[str, ...] = ()
    abortable: tuple[str, ...] = ("live_migrate",)
    parallel: int = 4
    timeout: Micros | None = None
    freeze_timeout: Micros | None = None
    live_migrate_timeout: Micros | None = None
    reboot_timeout: Micros | None = None
    redeploy_timeout: Micros | None = None
    reimage_timeout: Micros | None = None
    delete_timeout: Micros | None = None
    pause_timeout: Micros | None = None
    resume_timeout: Micros | None = None
    stop_timeout: Micros | None = None
    start_timeout: Micros | None = None
    grace: Micros = 10 * SECOND
    records: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QemuSettings:
    """[driver.qemu]: the monitors of QEMU, and the programs that start it."""

    monitor: str = ""
    events: str = ""
    start: tuple[str, ...] = ()
    receive: tuple[str, ...] = ()
    migration: str = ""
    freeze: Micros = 5 * SECOND
    shutdown_timeout: Micros = 30 * SECOND
    downtime: Micros = SECOND * 3 // 10
    parallel: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtSettings:
    """[driver.libvirt]: the libvirts of the hosts."""

    python: str = "/usr/bin/python3"
    uri: str = ""
    uris: tuple[str, ...] = ()
    peer_uri: str = ""
    data_uri: str = ""
    migration: str = "pre-copy"
    freeze: Micros = 5 * SECOND
    shutdown_timeout: Micros = 60 * SECOND
    pause: str = "save"
    reimage: bool = False
    connect_timeout: Micros = 20 * SECOND
    timeout: Micros | None = None
    parallel: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """[driver]: the driver that executes operations."""

    kind: str = "simulated"
    targets: str = TARGETS_FOREWARN
    timeout: Micros = _USUAL.driver_timeout
    attempts: int = _USUAL.driver_attempts
    retry_delay: Micros = _USUAL.retry_delay
    sightings: tuple[str, ...] = tuple(act.value for act in SightingAct)
    sighting_confirm: Micros = _USUAL.sighting_confirm
    sightings_max: int = _USUAL.sightings_max


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """[log]: the log on standard error."""

    format: str = "auto"
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """[[webhook]]: a receiver of event changes and notices."""

    name: str
    url: str = ""
    url_file: str = ""
    secret_file: str = ""
    format: str = "events"
    tenant: str = ""
    types: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    events: bool = True
    notices: tuple[str, ...] = ()
    timeout: Micros = 10 * SECOND
    insecure: bool = False
    ca_file: str = ""
    proxy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStepSettings:
    """[host_step.NAME]: a program that requests can name."""

    name: str
    program: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...] = ()
    timeout: Micros = STEP_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """[check.NAME]: a question to another system, whose answer campaigns wait for."""

    name: str
    kind: str
    url: str = ""
    query: str = ""
    below: float | None = None
    above: float | None = None
    status: int = 200
    contains: str = ""
    program: tuple[str, ...] = ()
    authorization_file: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str = ""
    insecure: bool = False
    every: Micros = 30 * SECOND
    fails: int = 1
    timeout: Micros = 10 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignsSettings:
    """[campaigns]: rules of the service for all campaigns."""

    second_person: bool = False
    in_flight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InventorySettings:
    """[inventory]: the fleet of another system, which is merged again and again."""

    program: tuple[str, ...] = ()
    libvirt: tuple[str, ...] = ()
    every: Micros = 15 * MINUTE
    timeout: Micros = 2 * MINUTE
    removals_max: Amount = REMOVALS_USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a service, with the origin of each."""

    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    admin: AdminSettings = field(default_factory=AdminSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    timing: Timing = field(default_factory=Timing)
    policy: PolicySettings = field(default_factory=PolicySettings)
    campaigns: CampaignsSettings = field(default_factory=CampaignsSettings)
    brake: BrakeLimits = field(default_factory=BrakeLimits)
    inventory: InventorySettings = field(default_factory=InventorySettings)
    driver: DriverSettings = field(default_factory=DriverSettings)
    simulated: SimulatedSettings = field(default_factory=SimulatedSettings)
    command: CommandSettings = field(default_factory=CommandSettings)
    qemu: QemuSettings = field(default_factory=QemuSettings)
    libvirt: LibvirtSettings = field(default_factory=LibvirtSettings)
    log: LogSettings = field(default_factory=LogSettings)
    webhook: tuple[WebhookSettings, ...] = ()
    host_step: tuple[HostStepSettings, ...] = ()
    check: tuple[CheckSettings, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    """Origins by full name, such as `timing.speed`; defaults are absent."""
    warnings: tuple[str, ...] = ()
    """Messages about probable mistakes that do no harm."""


def policy(settings: Settings, *, notice_floor: Micros = 0) -> Policy:
    """Return the policy for decisions, with durations divided by `speed`.

    Notices, the recovery time, the maximum hold time and the settling time are divided.
    The retention, the time until disabling and the driver's timeouts are not. No notice
    becomes shorter than `notice_floor`.
    """
    timing, metadata, driver = settings.timing, settings.metadata, settings.driver
    floors = dict.fromkeys(_NOTICES, notice_floor)
    sped: dict[str, Any] = {
        name: divided(duration, timing.speed, floor=floors.get(name, 0))
        for name in (*_NOTICES, "recovery", "hold_max", "verify_settle")
        if (duration := getattr(timing, name)) is not None
    }
    return Policy(
        **{**asdict(timing), **sped},
        notice_floor=notice_floor,
        hosts_at_once=settings.policy.hosts_at_once,
        reserve=settings.policy.reserve,
        second_person=settings.campaigns.second_person,
        campaigns_in_flight=settings.campaigns.in_flight,
        verify_times=settings.policy.verify_times,
        verify_within=settings.policy.verify_within,
        answers_within=settings.policy.answers_within,
        first_answer_delay=metadata.first_answer_delay,
        first_events_delay=metadata.first_events_delay,
        disable_after=metadata.disable_after,
        driver_chooses=driver.targets != TARGETS_FOREWARN,
        driver_timeout=driver.timeout,
        driver_attempts=driver.attempts,
        retry_delay=driver.retry_delay,
        sighting_acts=frozenset(map(SightingAct, driver.sightings)),
        sighting_confirm=driver.sighting_confirm,
        sightings_max=driver.sightings_max,
        brake=settings.brake,
        retention=settings.store.retention,
        subscribers=tuple(map(_subscriber, settings.webhook)),
    )


def _subscriber(webhook: WebhookSettings) -> Subscriber:
    every = Subscriber(name=webhook.name)
    return Subscriber(
        name=webhook.name,
        tenant=webhook.tenant,
        types=frozenset(map(EventType, webhook.types)) or every.types,
        changes=(
            frozenset(map(EventChange, webhook.statuses)) or every.changes
            if webhook.events
            else frozenset()
        ),
        notices=(
            frozenset(NoticeKind)
            if ALL_NOTICES in webhook.notices
            else frozenset(map(NoticeKind, webhook.notices))
        ),
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


def step_rules(settings: Settings) -> StepRules:
    """Return the host steps that requests can name."""
    return StepRules(
        rules=tuple(
            (step.name, StepRule(arguments=step.arguments, timeout=step.timeout))
            for step in settings.host_step
        )
    )


def step_time(settings: Settings) -> Micros:
    """Return the duration of a host step of the simulated driver, divided by
    `speed`."""
    return divided(settings.simulated.host_step, settings.timing.speed)
