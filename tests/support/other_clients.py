"""The behavior of other clients of Scheduled Events, according to their sources.

Each is a function of an example, in our words; the pages in docs/migration name the
commits that were read. The words are those that docs/how-to/migrate/index.md explains.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from forewarn.agent.core.model import StepState
from forewarn.agent.core.policy import Policy
from forewarn.instants import HOUR, MINUTE, SECOND, Micros, describe_duration
from forewarn.protocol.notices import STARTED, Notice
from tests.unit.agent.core.support import START, Life, notice

NOTHING = "nothing"
APPROVE = "approve"
DRAIN = "drain"
DRAIN_APPROVE = "drain, approve"
DRAIN_TOGETHER = "drain, approve when all have"

MINE = "vm1"
OTHER = "vm2"

_UNITS = {"s": SECOND, "m": MINUTE, "h": HOUR}
_USUAL_LEAD = {"Preempt": 30 * SECOND, "Terminate": 5 * MINUTE}

_EXAMPLE = re.compile(
    r"(?P<type>Reboot|Redeploy|Freeze|Preempt|Terminate)"
    r"(?: of (?P<seconds>\d+) s| of (?P<unknown>unknown length))?"
    r"(?P<user> by a user)?"
    r"(?: of (?P<whose>two VMs|another VM))?"
    r"(?: in (?P<lead>\d+) (?P<unit>[smh]))?"
    r"(?P<started>, Started)?"
    r"(?P<fails>, the drain fails)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An event as one client meets it, and whether its drain works."""

    notice: Notice
    fails: bool = False

    @property
    def type(self) -> str:
        return self.notice.event_type

    @property
    def is_mine(self) -> bool:
        return MINE in self.notice.resources

    @property
    def has_started(self) -> bool:
        return self.notice.has_started


def read_example(text: str) -> Example:
    """Return the event of a row."""
    match = _EXAMPLE.fullmatch(text)
    assert match is not None, f"no example: {text}"
    event_type = match["type"]
    lead = _USUAL_LEAD.get(event_type, 15 * MINUTE)
    if match["lead"]:
        lead = int(match["lead"]) * _UNITS[match["unit"]]
    resources = {"two VMs": (MINE, OTHER), "another VM": (OTHER,)}
    is_users = match["user"] or event_type == "Terminate"
    read = notice(
        event_type=event_type,
        source="User" if is_users else "Platform",
        resources=resources.get(match["whose"], (MINE,)),
        duration_seconds=int(match["seconds"] or -1),
        not_before=None if match["started"] else START + lead,
    )
    if match["started"]:
        read = notice(
            event_type=event_type,
            status=STARTED,
            source=read.source,
            resources=read.resources,
            duration_seconds=read.duration_seconds,
            not_before=None,
        )
    return Example(notice=read, fails=bool(match["fails"]))


# The agent


def ours(policy: Policy, example: Example) -> str:
    """Return what the agent does with these settings."""
    life = Life(policy, name=MINE)
    life.poll(example.notice)
    begins = _wait_for_beginning(life, example.notice.not_before)
    if not life.runs:
        return APPROVE if life.sent else NOTHING
    assert life.sent == [], "it approved before it had prepared"
    while life.running:
        for handler in [run.handler for run in life.running.values()]:
            life.end(handler, StepState.FAILED if example.fails else StepState.DONE)
    done = DRAIN if begins is None else f"{DRAIN} {describe_duration(begins)} before"
    if life.asked:
        assert life.sent == [], "it did not wait for the other"
        life.hear(OTHER, is_prepared=True)
        assert life.sent == [example.notice.event_id]
        return f"{done}, approve when all have"
    return f"{done}, approve" if life.sent else done


def _wait_for_beginning(life: Life, not_before: Micros | None) -> Micros | None:
    """Let time pass until a handler begins; return how long before, None: at once."""
    if life.runs or life.sent or not_before is None:
        return None
    while life.wake is not None and life.wake < not_before and not life.runs:
        life.sleep(life.wake - life.now)
    return not_before - life.now if life.runs else None


# The others


def manager(example: Example, *, not_before: Micros = 15 * MINUTE) -> str:
    """azure-scheduledevents-manager: drains near NotBefore, and approves in any case."""
    types = {"Reboot", "Redeploy", "Preempt", "Terminate"}
    if not example.is_mine or example.type not in types:
        return NOTHING
    # An event without NotBefore is drained for at once, also one that has started.
    due = example.notice.not_before
    if due is None or due - START <= not_before:
        return DRAIN_APPROVE
    return f"{DRAIN} {describe_duration(not_before)} before, approve"


def azure_events_az(example: Example) -> str:
    """azure-events-az: moves resources away; all named nodes must have stopped."""
    if not example.is_mine or example.type not in {"Reboot", "Redeploy"}:
        return NOTHING
    if example.has_started or example.fails:
        return DRAIN
    return DRAIN_TOGETHER if len(example.notice.resources) > 1 else DRAIN_APPROVE


def aks_handler(example: Example) -> str:
    """aks-node-termination-handler: drains, and never approves."""
    return DRAIN if example.is_mine and example.type != "Freeze" else NOTHING


def giant_swarm(example: Example) -> str:
    """azure-scheduled-events: a late drain is reported, and approved nevertheless."""
    return DRAIN_APPROVE if example.is_mine and example.type != "Freeze" else NOTHING


def operator_2(example: Example) -> str:
    """scheduled-events-operator-2, with the rule that its chart has."""
    if not example.is_mine or example.has_started:
        return NOTHING
    if example.type == "Freeze" and 10 >= example.notice.duration_seconds > 0:
        return NOTHING
    if example.fails or len(example.notice.resources) > 1:
        return DRAIN
    return DRAIN_APPROVE


def drain_safe(example: Example) -> str:
    """DrainSafe: Scheduled events of four types."""
    if not example.is_mine or example.has_started or example.type == "Freeze":
        return NOTHING
    return DRAIN if example.fails else DRAIN_APPROVE


def documents_script(example: Example) -> str:
    """The script of Microsoft's documents: any VM's event."""
    is_short = example.type == "Freeze" and 0 <= example.notice.duration_seconds < 9
    if example.has_started or not (example.notice.source == "User" or is_short):
        return NOTHING
    return APPROVE


def node_service(example: Example) -> str:
    """The Node.js service: each new event of any VM, whatever its status."""
    return DRAIN if example.fails else DRAIN_APPROVE


def powershell_service(example: Example) -> str:
    """The PowerShell service: each new event of any VM."""
    return APPROVE


THERE: Mapping[str, Callable[[Example], str]] = {
    "azure-scheduledevents-manager.md": manager,
    "azure-events-az.md": azure_events_az,
    "aks-node-termination-handler.md": aks_handler,
    "other-agents.md#azure-scheduled-events-of-giant-swarm": giant_swarm,
    "other-agents.md#scheduled-events-operator-2": operator_2,
    "other-agents.md#drainsafe": drain_safe,
    "samples.md#the-python-script": documents_script,
    "samples.md#the-nodejs-service": node_service,
    "samples.md#the-powershell-service": powershell_service,
}
"""The commands, by page, and by section if a page has several."""

FLAGS: Mapping[str, str] = {
    "azure-scheduledevents-manager.md": """
        --log.level --log.format --log.source --log.color --log.time --server.bind
        --server.timeout.read --server.timeout.write --startup.delay --scrape.time
        --azure.metadatainstance-url --azure.scheduledevents-url --azure.timeout
        --azure.error-threshold --azure.approve-scheduledevent --vm.nodename
        --drain.enable --drain.mode --drain.not-before --drain.events
        --drain.wait-before-cmd --drain.wait-after-cmd --command.test.cmd
        --command.drain.cmd --command.uncordon.cmd --kube.nodename --kube.drain.args
        --kube.drain.dry-run --notification --notification.messagetemplate
        --metrics-requeststats /metrics /healthz /readyz /drainz
        azure_scheduledevent_document_incarnation azure_scheduledevent_event
        azure_scheduledevent_event_drain azure_scheduledevent_event_approval
        azure_scheduledevent_request azure_scheduledevent_request_error""",
    "azure-events-az.md": """
        eventTypes verbose retry_count retry_wait request_timeout""",
    "aks-node-termination-handler.md": """
        -config -log.level -log.pretty -kubeconfig -endpoint -node -period
        -request.timeout -telegram.token -telegram.chatID -alert.message
        -webhook.method -webhook.contentType -webhook.url -webhook.timeout
        -webhook.template -webhook.template-file -webhook.insecureSkip
        -webhook.http-proxy -webhook.retries -sentry.dsn -web.address -taint.node
        -taint.effect -podGracePeriodSeconds -nodeGracePeriodSeconds
        -gracePeriodSeconds -drainOnFreezeEvent -resource.name -exitAfterNodeDrain
        -disableEviction -dryRun -version /healthz /drainNode /metrics""",
    "other-agents.md": """
        --k8saddress --cafile --crtfile --keyfile --kubeconfigpath --incluster
        --check-interval --prometheus-exporter-listen-port K8S_NODE_NAME
        api-metadata-scheduledevents api-metadata-instance polling-frequency-seconds
        socket-timeout-seconds processing-rules event-type-is
        and-duration-in-seconds-less-equal-to and-duration-in-seconds-greater-equal-to
        and-compute-name-matches and-compute-name-not-matches and-node-name-matches
        and-node-name-not-matches kubectl-drain-options delay-before-uncordon-seconds
        delay-before-program-close-seconds NODE_NAME""",
    "mocks.md": """
        --list --scenario --all --loop --interval --sleep --action --time
        --rebalance-rec-time --code --state --not-before --not-after
        --not-before-deadline --hostname --port --config-file --save-config-to-file
        --watch-config-file --mock-delay-sec --mock-trigger-time --mock-ip-count
        --imdsv2 --rebalance-delay-sec --rebalance-trigger-time
        --asg-termination-delay-sec --asg-termination-trigger-time""",
}
"""Every flag, parameter, route and metric that the other program has."""
