"""The commands of the simulator: to run it, and to control it while it runs."""

from forewarn.cli.command_table import CLIENT, JSON, Command, Option

_VMS = Option(name="vm", metavar="VM", many=True, help="Names of VMs in the fleet.")

SIMULATE = Command(
    path=("simulate",),
    summary="serve simulated VMs and play scenarios",
    text="Serve the metadata endpoints of a few VMs, each at its own address, without "
    "configuration, and play scenarios: one after the other, or at the same time with a + "
    "between them. Each scenario starts when a VM has asked for its events. The command "
    "ends after the last scenario. The status is 1 if an expectation was not met, or if "
    "--profile strict has found a deviation. Without a scenario, the command serves until "
    "it is stopped. All commands of the service and of `forewarn sim` work. A variable "
    "such as FOREWARN_SIMULATE_SPEED sets the option --speed, if it is not given. "
    "FOREWARN_SIMULATE_SCENARIO sets the scenarios.",
    run="forewarn.cli.simulate:simulate",
    options=(
        Option(
            name="scenario",
            metavar="SCENARIO|FILE",
            many=True,
            is_optional=True,
            help="Names of scenarios (see --list), or scenario files.",
        ),
        Option(
            name="--list",
            is_flag=True,
            help="List the scenarios with their timelines, and exit.",
        ),
        Option(
            name="--show",
            metavar="NAME",
            help="Print the file of a scenario, to copy and change, and exit.",
        ),
        Option(
            name="--vms",
            metavar="N",
            help="Number of VMs in the default fleet. Default: 3, or more if a scenario "
            "needs more. A scenario with its own fleet ignores it.",
        ),
        Option(
            name="--name",
            metavar="VM",
            repeated=True,
            help="Name of the VM that the scenario is about, at the first address. A "
            "second --name names the second VM, and so on. With --fleet: a VM of the fleet.",
        ),
        Option(
            name="--fleet",
            metavar="FILE",
            help="Fleet file, instead of the default fleet or that of a scenario. Its VMs "
            "take the roles of a scenario: those with the same names if suitable, "
            "otherwise the first suitable VMs. Without suitable VMs, nothing starts.",
        ),
        Option(
            name="--listen",
            metavar="ADDRESS",
            help="Addresses of VMs: HOST:PORT of the first VM, with the next ports for the "
            "others, or a network such as 127.0.1.0/24:80, with an address for each. "
            "Default: 127.0.0.1:8301, and ports in use are skipped.",
        ),
        Option(
            name="--admin",
            metavar="ADDRESS",
            help="Address of the operator API. Default: 127.0.0.1:8200, or the next free "
            "port.",
        ),
        Option(
            name="--speed",
            metavar="N",
            help="Divide every notice, impact and recovery by N. NotBefore is divided "
            "too, so it matches the clock. Default: the speed that the scenario sets, "
            "otherwise 60 (a minute takes a second). A recording plays at 1. Notices above 5 s "
            "stay at least 5 s long, and impacts above 2 s at least 2 s.",
        ),
        Option(
            name="--profile",
            choices=("real", "strict", "lenient"),
            help="real: slow start, and 429 above 5 requests a second. strict: report each "
            "deviation of a client, and exit with status 1. lenient (default): "
            "neither.",
        ),
        Option(
            name="--replay",
            metavar="FILE",
            help="Serve a recording of `forewarn record` to one VM, or to --vms VMs, instead "
            "of a fleet. It starts with the first request.",
        ),
        Option(
            name="--exact",
            is_flag=True,
            help="With --replay: do not change dates, so that a recording of forewarn is "
            "replayed byte for byte, except for the Date header. Without --exact, "
            "NotBefore is moved to the current time.",
        ),
        Option(
            name="--faults",
            metavar="FILE",
            help="Faults file, for faults from the start. See the page 'Faults'.",
        ),
        Option(
            name="--loop",
            is_flag=True,
            help="Start again after the last scenario, without end.",
        ),
        Option(
            name="--stay", is_flag=True, help="Keep serving after the last scenario."
        ),
        Option(
            name="--open",
            is_flag=True,
            help="Open the page of the simulation in the browser: the document of each VM, "
            "its requests, and buttons for events, approvals, faults and the clock.",
        ),
        Option(
            name="--expect",
            choices=("scenario", "asked", "approved", "none"),
            help="Demands on your program. scenario (default): those of the scenario. asked: "
            "it asks for its events. approved: it asks, and approves each event that "
            "names its VM before NotBefore. none: nothing is judged, and the output says "
            "so. A scenario never passes if no client asks. With --replay, scenario means "
            "asked.",
        ),
        Option(
            name="--wait",
            metavar="DURATION",
            help="Maximum time that a scenario waits for a VM to ask for its events. 0s "
            "starts at once. Default: 1m.",
        ),
        Option(
            name="--start-after",
            metavar="DURATION",
            help="Delay between the first request of a VM, or the end of --wait, and the "
            "first step of a scenario, such as 10s, in real time at any speed. Also valid "
            "with --replay.",
        ),
        Option(
            name="--timeout",
            metavar="DURATION",
            help="Maximum duration of a scenario or a --replay from its start, in real time. "
            "If it takes longer, it fails and reports what it waited for. Default: no "
            "limit.",
        ),
        Option(
            name="--link-local",
            is_flag=True,
            help="Serve the first VM at 169.254.169.254:80 of this machine while the command "
            "runs. Needs root.",
        ),
        Option(
            name="--netns",
            metavar="NAME",
            help="Run inside this network namespace. Needs root.",
        ),
        Option(
            name="--junit",
            metavar="FILE",
            help="Write the results as JUnit XML to a file.",
        ),
        Option(
            name="--plain",
            is_flag=True,
            help="Print lines, even on a terminal.",
        ),
        JSON,
    ),
    examples=(
        "forewarn simulate",
        "forewarn simulate spot-preemption --speed 1",
        "forewarn simulate live-migration + user-reboot redeploy --profile strict",
        "forewarn simulate user-reboot --name my-host --start-after 10s --timeout 5m",
        "forewarn simulate mine.toml --junit report.xml --json",
        "forewarn simulate --replay maintenance.jsonl --speed 10",
    ),
)

_MORE = (
    Command(
        path=("sim", "clock"),
        summary="show or change the time",
        text="Show the time of a running simulator, pause or resume it, go to the next "
        "timer, or let time pass at once. A jump does not change the clock: it brings "
        "everything pending nearer, including NotBefore.",
        run="forewarn.cli.sim:clock",
        options=(
            Option(
                name="do",
                choices=("pause", "resume", "step", "jump"),
                is_optional=True,
                help="The change. Default: only show the time.",
            ),
            Option(
                name="by",
                metavar="DURATION",
                is_optional=True,
                help="With `jump`: the length, in real time at any speed.",
            ),
            *CLIENT,
        ),
        examples=("forewarn sim clock", "forewarn sim clock jump 10m"),
    ),
    Command(
        path=("sim", "event"),
        summary="publish an event",
        text="Publish an event for VMs, even if the rules of notice forbid it. It is "
        "approved, started and ended like any other event.",
        run="forewarn.cli.sim:event",
        options=(
            Option(
                name="type",
                choices=("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"),
                help="EventType.",
            ),
            _VMS,
            Option(
                name="--notice",
                metavar="DURATION",
                help="Time until NotBefore, in real time at any speed; 0s is Started at "
                "once. Default: the notice of the type, divided by the speed.",
            ),
            Option(
                name="--source",
                choices=("Platform", "User"),
                help="EventSource. Default: User for Terminate, Platform for all others.",
            ),
            Option(
                name="--duration",
                metavar="DURATION",
                help="DurationInSeconds, such as 5s, or whole seconds without a unit.",
            ),
            Option(
                name="--description",
                metavar="TEXT",
                may_be_empty=True,
                help="Description, instead of the default one.",
            ),
            Option(
                name="--migrate",
                is_flag=True,
                help="A Freeze that moves the VMs to other hosts.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn sim event Preempt web_0 --notice 30s",
            "forewarn sim event Freeze web_0 web_1 --notice 0s --duration 5s",
        ),
    ),
    Command(
        path=("sim", "move"),
        summary="advance an operation to a given state now",
        text="Advance an operation, or the operation behind an event, to a state now, or "
        "as far as the fault-domain guard allows.",
        run="forewarn.cli.sim:move",
        options=(
            Option(
                name="operation",
                metavar="OPERATION|EVENT_ID",
                help="ID of the operation or event.",
            ),
            Option(
                name="to",
                choices=("started", "recovering", "removed", "cancelled"),
                help="The new state: Started, impact over, events removed, or cancelled.",
            ),
            *CLIENT,
        ),
        examples=("forewarn sim move op-w2147h2k9m4x3qa8 started",),
    ),
    Command(
        path=("sim", "withhold"),
        summary="withhold approvals of VMs",
        text="Withhold the approvals of VMs from now on, as if another tenant had not "
        "approved yet. The VMs get the usual answers.",
        run="forewarn.cli.sim:withhold",
        options=(_VMS, *CLIENT),
        examples=("forewarn sim withhold web_0",),
    ),
    Command(
        path=("sim", "release"),
        summary="release withheld approvals",
        text="Release the approvals of VMs that were withheld.",
        run="forewarn.cli.sim:release",
        options=(_VMS, *CLIENT),
        examples=("forewarn sim release web_0",),
    ),
    Command(
        path=("sim", "vm"),
        summary="list VMs with their addresses, add or remove one",
        text="List the VMs with their addresses, add a VM, or remove one. A VM that an "
        "event deleted can be added again.",
        run="forewarn.cli.sim:vm",
        options=(
            Option(
                name="do",
                choices=("list", "add", "remove"),
                is_optional=True,
                help="The action. Default: list.",
            ),
            Option(name="name", metavar="VM", is_optional=True, help="Name of the VM."),
            Option(name="--host", metavar="HOST", help="Host. Default: a new host."),
            Option(
                name="--scope",
                metavar="SCOPE",
                help="Scope. Default: the scope of the first VM.",
            ),
            Option(
                name="--standalone",
                is_flag=True,
                help="Use a separate scope: the VM sees only its own events.",
            ),
            Option(
                name="--fault-domain",
                metavar="N",
                help="Fault domain. Default: the one with the fewest VMs.",
            ),
            Option(name="--spot", is_flag=True, help="The VM can be evicted."),
            *CLIENT,
        ),
        examples=(
            "forewarn sim vm",
            "forewarn sim vm add spot_0 --spot",
            "forewarn sim vm remove web_2",
        ),
    ),
    Command(
        path=("sim", "fault"),
        summary="set faults of answers to a VM",
        text="Set faults of the answers to a VM, list the faults, or clear them. The page "
        "'Faults' describes them.",
        run="forewarn.cli.sim:fault",
        options=(
            Option(
                name="words",
                metavar="VM FAULT",
                many=True,
                is_optional=True,
                help="The VM, and a fault or a playbook. Default: list the faults.",
            ),
            Option(
                name="--all",
                is_flag=True,
                help="Apply the fault to every VM; give no name before it.",
            ),
            Option(
                name="--clear",
                is_flag=True,
                help="Clear the faults of the named VMs, or of all VMs if none is named.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn sim fault web_0 500 x2, timeout, empty",
            "forewarn sim fault --all delay 3s",
            "forewarn sim fault web_0 --clear",
        ),
    ),
    Command(
        path=("sim", "journal"),
        summary="list the requests that VMs have sent",
        text="List the requests that VMs have sent, with the answers.",
        run="forewarn.cli.sim:journal",
        options=(
            Option(name="--vm", metavar="VM", help="Only requests of this VM."),
            Option(name="--method", choices=("GET", "POST"), help="Only this method."),
            Option(
                name="--event", metavar="EVENT_ID", help="Only approvals of this event."
            ),
            Option(
                name="--deviating",
                is_flag=True,
                help="Only requests that deviate from the protocol.",
            ),
            Option(
                name="--follow",
                is_flag=True,
                help="Keep printing new requests; with --json, one document per line.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn sim journal --vm web_0 --method POST",
            "forewarn sim journal --follow",
        ),
    ),
    Command(
        path=("sim", "reset"),
        summary="restart the simulation",
        text="Restart with the initial fleet, addresses and faults, without events, and "
        "with an empty journal.",
        run="forewarn.cli.sim:reset",
        options=CLIENT,
        examples=("forewarn sim reset",),
    ),
)

SIMULATOR = (SIMULATE, *_MORE)
