"""The commands of the agent, which runs in each VM."""

from forewarn.cli.command_table import JSON, Command, Option

_CONFIG = Option(
    name="--config",
    metavar="FILE",
    help="The settings; /etc/forewarn/agent.toml if it is there and no FILE is named.",
)
_SETTINGS = "forewarn.cli.agent:options"

AGENT = (
    Command(
        path=("agent",),
        summary="watch for maintenance in a VM: prepare, approve, recover",
        text="Run the agent until it is told to stop. It polls the endpoint, has "
        "handlers prepare for events that name this VM, approves as its rules say, and "
        "has the handlers recover when an event is over. The page 'Settings of the agent' has "
        "its settings. The status is 2 for settings that are wrong, and 1 where it "
        "cannot start all the same, as beside another agent on the same journal.",
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
        summary="say whether all is well: settings, endpoint, handlers",
        text="Say in plain words what is well and what is not: settings, journal, "
        "endpoint, name, each handler, addresses and secrets. Nothing is approved, and "
        "nothing run but the checks of handlers. The status is 1 if anything is wrong.",
        run="forewarn.cli.agent:check",
        options=(_CONFIG, JSON),
        more=_SETTINGS,
        examples=("forewarn agent check --config agent.toml",),
    ),
    Command(
        path=("agent", "settings"),
        summary="print the agent's settings in force",
        text="Print every setting that is there once with where it came from.",
        run="forewarn.cli.agent:settings",
        options=(_CONFIG, JSON),
        more=_SETTINGS,
        examples=("forewarn agent settings --config agent.toml",),
    ),
    Command(
        path=("agent", "try"),
        summary="show what the agent would do with a document",
        text="Show of each event of a document which rule matches, what would be run, "
        "when, and when it would be approved; handlers are taken to succeed at once. "
        "Nothing is done.",
        run="forewarn.cli.agent:try_document",
        options=(
            Option(
                name="file",
                metavar="EVENTS.json",
                help="The document, as an endpoint gives it; `-` is standard input.",
            ),
            Option(
                name="--vm",
                metavar="NAME",
                help="As this VM; else the setting name, else the only name in it.",
            ),
            Option(
                name="--at",
                metavar="TIME",
                help="As if it was this time, such as 2026-11-21T10:00:00Z; else now.",
            ),
            _CONFIG,
            JSON,
        ),
        more=_SETTINGS,
        examples=("forewarn agent try events.json --vm web_0",),
    ),
    Command(
        path=("agent", "status"),
        summary="show how the agent stands, with its history",
        text="Show the events that the agent knows, what was done about each, why it "
        "is not approved, and the history. Of an agent that does not answer, show what "
        "it remembered last; the status is 3 then.",
        run="forewarn.cli.agent:status",
        options=(_CONFIG, JSON),
        more=_SETTINGS,
        examples=("forewarn agent status", "forewarn agent status --json"),
    ),
    Command(
        path=("agent", "approve"),
        summary="have the agent approve an event now",
        text="Order the agent to approve an event, whatever stands in the way: rules, "
        "windows, a preparation that failed. It does so within a second, or when it "
        "starts.",
        run="forewarn.cli.agent:approve",
        options=(
            Option(name="event", metavar="EVENT_ID", help="As `agent status` has it."),
            _CONFIG,
        ),
        more=_SETTINGS,
        examples=("forewarn agent approve 4F2C8A10-3B5D-4E6F-8A9B-0C1D2E3F4A5B",),
    ),
    Command(
        path=("agent", "install"),
        summary="print or write the service unit for this system",
        text="Print the unit that has systemd run the agent, or write it; where there "
        "is no systemd, say what to do.",
        run="forewarn.cli.agent:install",
        options=(
            Option(
                name="--write",
                is_flag=True,
                help="Write /etc/systemd/system/forewarn-agent.service, if there is "
                "none.",
            ),
            _CONFIG,
        ),
        examples=("forewarn agent install", "forewarn agent install --write"),
    ),
)

GROUP = {"agent": "watch for maintenance in a VM: prepare, approve, recover"}
"""The word that begins these commands, and is one itself."""
