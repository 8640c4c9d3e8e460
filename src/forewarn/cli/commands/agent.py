"""The commands of the agent, which runs in each VM."""

from forewarn.cli.command_table import JSON, Command, Option

_CONFIG = Option(
    name="--config",
    metavar="FILE",
    help="Settings file. Default: /etc/forewarn/agent.toml, if it exists.",
)
_SETTINGS = "forewarn.cli.agent:options"

AGENT = (
    Command(
        path=("agent",),
        summary="watch for maintenance in a VM: prepare, approve, recover",
        text="Run the agent until it is stopped. It polls the endpoint, runs handlers "
        "to prepare for events that name this VM, approves events by its rules, and "
        "runs the handlers to recover when an event has ended. See the page 'Settings of "
        "the agent'. The exit status is 2 for invalid settings. It is 1 if the agent "
        "cannot start for another reason, such as an agent with the same journal.",
        run="forewarn.cli.agent:run",
        options=(_CONFIG,),
        more=_SETTINGS,
        examples=(
            "forewarn agent --config agent.toml",
            "forewarn agent --endpoint http://127.0.0.1:8301 --state agent.db",
        ),
    ),
    Command(
        path=("agent", "check"),
        summary="check the settings, the endpoint and the handlers",
        text="Check the settings, the journal, the endpoint, the name, each handler, "
        "the addresses and the secrets. Nothing is approved, and only the checks of "
        "handlers are run. The exit status is 1 if any check fails.",
        run="forewarn.cli.agent:check",
        options=(_CONFIG, JSON),
        more=_SETTINGS,
        examples=("forewarn agent check --config agent.toml",),
    ),
    Command(
        path=("agent", "settings"),
        summary="print the agent's settings and their origins",
        text="Print each setting in effect, except arrays of tables, with its origin.",
        run="forewarn.cli.agent:settings",
        options=(_CONFIG, JSON),
        more=_SETTINGS,
        examples=("forewarn agent settings --config agent.toml",),
    ),
    Command(
        path=("agent", "try"),
        summary="show what the agent would do with a document",
        text="For each event of a document, show the matching rule, the handlers that "
        "would run, and when the event would be approved. The simulation assumes that "
        "handlers succeed at once. Nothing is run or approved.",
        run="forewarn.cli.agent:try_document",
        options=(
            Option(
                name="file",
                metavar="EVENTS.json",
                help="A document in the format of an endpoint; `-` is standard input.",
            ),
            Option(
                name="--vm",
                metavar="NAME",
                help="Name of this VM. Default: the setting name, or the only VM in the document.",
            ),
            Option(
                name="--at",
                metavar="TIME",
                help="Simulated time, such as 2026-11-21T10:00:00Z. Default: now.",
            ),
            _CONFIG,
            JSON,
        ),
        more=_SETTINGS,
        examples=("forewarn agent try events.json --vm web_0",),
    ),
    Command(
        path=("agent", "status"),
        summary="show the agent's status and history",
        text="Show the events that the agent knows, the work for each of them, why an "
        "event is not approved, and the history. If the agent does not answer, show its "
        "last stored state; the exit status is then 3.",
        run="forewarn.cli.agent:status",
        options=(_CONFIG, JSON),
        more=_SETTINGS,
        examples=("forewarn agent status", "forewarn agent status --json"),
    ),
    Command(
        path=("agent", "approve"),
        summary="have the agent approve an event now",
        text="Request the agent to approve an event, regardless of rules, windows and "
        "failed preparations. The agent does so within a second, or when it starts.",
        run="forewarn.cli.agent:approve",
        options=(
            Option(
                name="event",
                metavar="EVENT_ID",
                help="The ID of the event in `agent status`.",
            ),
            _CONFIG,
        ),
        more=_SETTINGS,
        examples=("forewarn agent approve 4F2C8A10-3B5D-4E6F-8A9B-0C1D2E3F4A5B",),
    ),
    Command(
        path=("agent", "install"),
        summary="print or write the service unit for this system",
        text="Print the systemd unit for the agent, or write it. On a system without "
        "systemd, print instructions.",
        run="forewarn.cli.agent:install",
        options=(
            Option(
                name="--write",
                is_flag=True,
                help="Write /etc/systemd/system/forewarn-agent.service, if it does not "
                "exist.",
            ),
            _CONFIG,
        ),
        examples=("forewarn agent install", "forewarn agent install --write"),
    ),
)
