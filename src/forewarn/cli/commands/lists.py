"""The commands that show what is, and why something waits."""

from forewarn.cli.command_table import CLIENT, NAMES_FILE, SELECTORS, Command, Option

_FILTERS = (
    Option(name="--vm", metavar="VM", help="Only this VM."),
    *SELECTORS,
    NAMES_FILE,
    Option(name="--rollout", metavar="ROLLOUT", help="Only this rollout."),
)
_WATCH = Option(
    name="--watch",
    is_flag=True,
    help="Go on until Ctrl-C. A terminal shows each row with the time of its last "
    "change; a pipe gets a line for each change, with --json a document. If the service "
    "goes away, the command waits for it.",
)

LISTS = (
    Command(
        path=("operations",),
        summary="list what is planned and under way",
        text="List operations: what is planned, what is under way, and what each waits "
        "for.",
        run="forewarn.cli.lists:operations",
        options=(
            *_FILTERS,
            Option(
                name="--state",
                choices=(
                    "planned",
                    "announced",
                    "ready",
                    "impacting",
                    "recovering",
                    "done",
                    "cancelled",
                    "failed",
                ),
                help="Only what stands there.",
            ),
            Option(name="--all", is_flag=True, help="Also what has ended."),
            _WATCH,
            *CLIENT,
        ),
        examples=(
            "forewarn operations --host h1",
            "forewarn operations --watch --json",
        ),
    ),
    Command(
        path=("rollout", "list"),
        summary="list orders of several operations",
        text="List the rollouts that are under way: how many of their operations are "
        "done, and where the others are.",
        run="forewarn.cli.lists:rollouts",
        options=(
            *_FILTERS[:-1],
            Option(name="--all", is_flag=True, help="Also what has ended."),
            *CLIENT,
        ),
        examples=("forewarn rollout list", "forewarn rollout list --all --json"),
    ),
    Command(
        path=("rollout", "show"),
        summary="show a rollout with its operations",
        text="Show a rollout: who ordered it and why, and a row for each operation, "
        "also of those that have ended.",
        run="forewarn.cli.lists:rollout",
        options=(
            Option(
                name="rollout", metavar="ROLLOUT", help="Such as ro-w2147h2k9m4x3qa8."
            ),
            *CLIENT,
        ),
        examples=("forewarn rollout show ro-w2147h2k9m4x3qa8",),
    ),
    Command(
        path=("events",),
        summary="list what VMs are told",
        text="List events, as the VMs of each scope see them.",
        run="forewarn.cli.lists:events",
        options=(
            *_FILTERS,
            Option(
                name="--state",
                choices=("scheduled", "started", "removed"),
                help="Only what stands there.",
            ),
            Option(name="--all", is_flag=True, help="Also those that are gone."),
            _WATCH,
            *CLIENT,
        ),
        examples=(
            "forewarn events --vm web_0",
            "forewarn events --tenant shop --watch",
        ),
    ),
    Command(
        path=("explain",),
        summary="show why something waits, and who can continue it",
        text="Show where an operation, rollout, event, host or VM is, and every reason "
        "why it waits. The reasons that somebody can end come first.",
        run="forewarn.cli.explain:explain",
        options=(
            Option(
                name="id",
                metavar="ID",
                help="ID of an operation, rollout or event, or name of a host or VM.",
            ),
            Option(
                name="--kind",
                choices=("host", "vm"),
                help="Which to explain if a host and a VM have the same name.",
            ),
            *CLIENT,
        ),
        examples=("forewarn explain op-w2147h2k9m4x3qa8", "forewarn explain web_0"),
    ),
    Command(
        path=("problems",),
        summary="list what needs somebody, the worst first",
        text="List what needs somebody, the worst first: VMs that are down, calls with "
        "an unknown outcome, a driver that fails, late approvals, held operations, late "
        "webhooks, and a service that is not ready. The exit status is 1 if there is a "
        "problem.",
        run="forewarn.cli.attention:problems",
        options=(
            *_FILTERS,
            Option(
                name="--kind",
                choices=(
                    "not-ready",
                    "vm-down",
                    "outcome-unknown",
                    "driver-failing",
                    "approval-late",
                    "held",
                    "webhook-late",
                ),
                help="Only problems of this kind.",
            ),
            _WATCH,
            *CLIENT,
        ),
        examples=("forewarn problems", "forewarn problems --kind vm-down --json"),
    ),
    Command(
        path=("waits",),
        summary="list the tenants whose approval is missing",
        text="List the tenants whose approval is missing, the longest wait first.",
        run="forewarn.cli.attention:waits",
        options=(
            Option(name="--tenant", metavar="TENANT", help="Only this tenant."),
            *CLIENT,
        ),
        examples=("forewarn waits", "forewarn waits --tenant shop"),
    ),
    Command(
        path=("capacity",),
        summary="list free places by zone, and what the next hosts need",
        text="List the free places of each zone, and the places that the next host of "
        "each rollout needs.",
        run="forewarn.cli.attention:capacity",
        options=(
            Option(name="--zone", metavar="ZONE", help="Only this zone."),
            *CLIENT,
        ),
        examples=("forewarn capacity", "forewarn capacity --zone 1 --json"),
    ),
)

GROUPS = {"rollout": "look at orders of several operations"}
"""Words that begin several commands."""
