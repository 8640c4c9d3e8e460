"""The commands of the simulator: to run it, and to turn it while it runs."""

from forewarn.cli.command_table import CLIENT, JSON, Command, Option

GROUP = {"sim": "turn a running simulator: its clock, events, faults, VMs"}

_VMS = Option(name="vm", metavar="VM", many=True, help="Names of VMs in the fleet.")

SIMULATE = Command(
    path=("simulate",),
    summary="serve simulated VMs, and play scenarios to them",
    text="Serve the metadata endpoint of a few VMs, each at its own address, with no "
    "configuration, and play scenarios to them: one after the other, or at once where "
    "a + stands between them. Each begins when a VM has asked for its events. It ends when "
    "the last is over; the status is 1 if an expectation was not met, or if --profile "
    "strict has found a deviation. Without a scenario it serves, and waits for orders: "
    "all commands of the service work, and those of `forewarn sim`. A variable such as "
    "FOREWARN_SIMULATE_SPEED stands for the option --speed, where that is not given; "
    "FOREWARN_SIMULATE_SCENARIO for the words.",
    run="forewarn.cli.simulate:simulate",
    options=(
        Option(
            name="scenario",
            metavar="SCENARIO|FILE",
            many=True,
            is_optional=True,
            help="Names of scenarios (--list), or files of one's own.",
        ),
        Option(
            name="--list",
            is_flag=True,
            help="List the scenarios with their timelines, and end.",
        ),
        Option(
            name="--show",
            metavar="NAME",
            help="Print a scenario's file, to be copied and changed, and end.",
        ),
        Option(
            name="--vms",
            metavar="N",
            help="VMs of the usual fleet; 3 unless a scenario wants more. One that brings "
            "its own fleet keeps it.",
        ),
        Option(
            name="--name",
            metavar="VM",
            repeated=True,
            help="The name of the VM that the scenario is about, at the first address; "
            "given again, that of the second, and so on. With --fleet: which of its VMs.",
        ),
        Option(
            name="--fleet",
            metavar="FILE",
            help="A fleet file, instead of the usual fleet or that of a scenario. VMs "
            "of it play the roles of a scenario: those of its names, if they can, or "
            "the first that can. Where there is none, nothing is begun.",
        ),
        Option(
            name="--listen",
            metavar="ADDRESS",
            help="Where VMs are served: HOST:PORT of the first, the others at the next "
            "ports, or a network such as 127.0.1.0/24:80, an address for each. "
            "127.0.0.1:8301 if it is not given, and then ports that are taken are "
            "passed over.",
        ),
        Option(
            name="--admin",
            metavar="ADDRESS",
            help="Where operators are served; 127.0.0.1:8200 if it is not given, or "
            "the next port that is free.",
        ),
        Option(
            name="--speed",
            metavar="N",
            help="What divides every notice, impact and recovery; NotBefore stays true "
            "to the clock. If it is not given, 60: a minute takes a second; or what "
            "a scenario's file says, or its name, as the names of Microsoft's mock do; 1 "
            "for a recording. No notice becomes shorter than 5 s, no impact than 2 s.",
        ),
        Option(
            name="--profile",
            choices=("real", "strict", "lenient"),
            help="real: slow to begin, and 429 above 5 requests a second. strict: each "
            "deviation of a client is told, and the status is 1 then. lenient, if it "
            "is not given: neither.",
        ),
        Option(
            name="--replay",
            metavar="FILE",
            help="Serve a recording of `forewarn record`, to one VM or --vms, instead of "
            "a fleet. It begins with the first request.",
        ),
        Option(
            name="--exact",
            is_flag=True,
            help="With --replay: leave dates as they were recorded, so that a recording "
            "of forewarn is replayed byte for byte, except for the Date header. "
            "Without it, NotBefore is brought to the present.",
        ),
        Option(
            name="--faults",
            metavar="FILE",
            help="Faults of answers from the beginning, as the page 'Faults' has them.",
        ),
        Option(
            name="--loop", is_flag=True, help="Begin again after the last, for ever."
        ),
        Option(
            name="--stay", is_flag=True, help="Go on serving when the last is over."
        ),
        Option(
            name="--expect",
            choices=("scenario", "asked", "approved", "none"),
            help="How much is demanded of your program. scenario, if it is not given: "
            "what the scenario says. asked: only that it asks for its events. approved: "
            "that it asks, and approves each event that names its VM before NotBefore. "
            "none: nothing is judged, and the output says so. A scenario that no client "
            "asked has never passed. Of a --replay, scenario is asked.",
        ),
        Option(
            name="--wait",
            metavar="DURATION",
            help="How long a scenario waits for a VM to ask for its events; 1m if it is "
            "not given, 0s begins at once.",
        ),
        Option(
            name="--start-after",
            metavar="DURATION",
            help="How long a scenario waits after that, before its first step, such as "
            "10s, by the clock, whatever the speed. Also for a --replay.",
        ),
        Option(
            name="--timeout",
            metavar="DURATION",
            help="How long a scenario or a --replay may take from its beginning, by the "
            "clock. One that is not over by then fails, and says what it waited for. "
            "Without it, a scenario takes as long as it takes.",
        ),
        Option(
            name="--link-local",
            is_flag=True,
            help="Serve the first VM at 169.254.169.254:80 of this machine, for as long "
            "as it runs. Needs root.",
        ),
        Option(
            name="--netns",
            metavar="NAME",
            help="Run all of it inside this network namespace. Needs root.",
        ),
        Option(
            name="--junit", metavar="FILE", help="Write the results as JUnit XML too."
        ),
        Option(
            name="--plain",
            is_flag=True,
            help="Lines, one for each thing that happens, also on a terminal.",
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
        summary="tell the time, or turn it",
        text="Tell the time of a running simulator, let it stand still or go on, go to "
        "the next timer, or let time pass at once. The clock itself stays true: a jump "
        "brings everything that is pending nearer, NotBefore too.",
        run="forewarn.cli.sim:clock",
        options=(
            Option(
                name="do",
                choices=("pause", "resume", "step", "jump"),
                is_optional=True,
                help="What it shall do; nothing: only tell.",
            ),
            Option(
                name="by",
                metavar="DURATION",
                is_optional=True,
                help="With `jump`: how far, by the clock, whatever the speed.",
            ),
            *CLIENT,
        ),
        examples=("forewarn sim clock", "forewarn sim clock jump 10m"),
    ),
    Command(
        path=("sim", "event"),
        summary="publish an event by hand",
        text="Publish an event for VMs, also one that the rules of notice forbid. It "
        "is approved, started and ended as any other.",
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
                help="From now until NotBefore, by the clock, whatever the speed; 0s is "
                "Started at once. Else what the type has, divided by the speed.",
            ),
            Option(
                name="--source",
                choices=("Platform", "User"),
                help="EventSource; User for Terminate, Platform for all others.",
            ),
            Option(
                name="--duration",
                metavar="DURATION",
                help="DurationInSeconds, as 5s, or whole seconds without a unit.",
            ),
            Option(
                name="--description",
                metavar="TEXT",
                may_be_empty=True,
                help="Description, instead of the usual one.",
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
        summary="have an operation go on now",
        text="Have an operation, or the one behind an event, go on to a state now, or "
        "as far as the guard of fault domains lets it.",
        run="forewarn.cli.sim:move",
        options=(
            Option(name="operation", metavar="OPERATION|EVENT_ID", help="Which it is."),
            Option(
                name="to",
                choices=("started", "recovering", "removed", "cancelled"),
                help="Started; its impact over; its events gone; or cancelled.",
            ),
            *CLIENT,
        ),
        examples=("forewarn sim move op-w2147h2k9m4x3qa8 started",),
    ),
    Command(
        path=("sim", "withhold"),
        summary="keep back what VMs approve",
        text="Keep back what VMs approve from now on, as if another tenant had yet to "
        "approve. They are answered as ever.",
        run="forewarn.cli.sim:withhold",
        options=(_VMS, *CLIENT),
        examples=("forewarn sim withhold web_0",),
    ),
    Command(
        path=("sim", "release"),
        summary="let go what was kept back",
        text="Let go what VMs have approved while it was kept back.",
        run="forewarn.cli.sim:release",
        options=(_VMS, *CLIENT),
        examples=("forewarn sim release web_0",),
    ),
    Command(
        path=("sim", "vm"),
        summary="list VMs with their addresses, add one, remove one",
        text="List the VMs with the address that each is served at, add one, or remove "
        "one. A VM that was deleted by an event may be added again.",
        run="forewarn.cli.sim:vm",
        options=(
            Option(
                name="do",
                choices=("list", "add", "remove"),
                is_optional=True,
                help="What is done; list if it is not given.",
            ),
            Option(name="name", metavar="VM", is_optional=True, help="Which VM."),
            Option(name="--host", metavar="HOST", help="Else a new host of its own."),
            Option(name="--scope", metavar="SCOPE", help="Else that of the first VM."),
            Option(
                name="--standalone",
                is_flag=True,
                help="In a scope of its own: it sees its own events only.",
            ),
            Option(
                name="--fault-domain",
                metavar="N",
                help="Else the one with the fewest VMs.",
            ),
            Option(name="--spot", is_flag=True, help="It may be evicted."),
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
        summary="have answers to a VM go wrong",
        text="Have the answers to a VM go wrong from now on, list the faults that are "
        "set, or clear them. The page 'Faults' lists what there is.",
        run="forewarn.cli.sim:fault",
        options=(
            Option(
                name="words",
                metavar="VM FAULT",
                many=True,
                is_optional=True,
                help="The VM, and a fault or a playbook; nothing: list what is set.",
            ),
            Option(
                name="--all",
                is_flag=True,
                help="Every VM: no name stands before the fault.",
            ),
            Option(
                name="--clear",
                is_flag=True,
                help="Have the answers to the named VMs be good again; to all if none "
                "is named.",
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
        text="List the requests that VMs have sent, with what they were answered.",
        run="forewarn.cli.sim:journal",
        options=(
            Option(name="--vm", metavar="VM", help="Only this VM's."),
            Option(name="--method", choices=("GET", "POST"), help="Only this verb."),
            Option(
                name="--event", metavar="EVENT_ID", help="Only approvals of this event."
            ),
            Option(
                name="--deviating",
                is_flag=True,
                help="Only what deviates from the protocol.",
            ),
            Option(
                name="--follow",
                is_flag=True,
                help="Go on, and print each that comes; with --json one document a "
                "line.",
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
        summary="begin the simulation again",
        text="Begin again as at the start: same fleet, same addresses, same faults; no "
        "events, and an empty journal.",
        run="forewarn.cli.sim:reset",
        options=CLIENT,
        examples=("forewarn sim reset",),
    ),
)

SIMULATOR = (SIMULATE, *_MORE)
