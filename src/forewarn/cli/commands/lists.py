"""The commands that show what is, and why something waits."""

from forewarn.cli.command_table import CLIENT, Command, Option

_VM = Option(name="--vm", metavar="VM", help="Only what concerns this VM.")
_FILTERS = (
    _VM,
    Option(name="--host", metavar="HOST", help="Only what happens on this host."),
    Option(name="--scope", metavar="SCOPE", help="Only what this scope sees."),
    Option(name="--tenant", metavar="TENANT", help="Only what this tenant sees."),
)
_WATCH = Option(
    name="--watch",
    is_flag=True,
    help="Go on, and print each that changes; with --json one document a line.",
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
                    "noticed",
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
        summary="say why an operation has not started",
        text="Say where an operation stands, and every reason why it does not go on.",
        run="forewarn.cli.explain:explain",
        options=(
            Option(name="operation", metavar="OPERATION", help="The operation's id."),
            *CLIENT,
        ),
        examples=("forewarn explain op-w2147h2k9m4x3qa8",),
    ),
)
