"""The commands that show what was: the trail, and how long VMs were down."""

from forewarn.cli.command_table import CLIENT, NAMES_FILE, SELECTORS, Command, Option

_SINCE = (
    "2026-11-21T10:00:00Z, with any offset; 2026-11-21T10:00 in the local time of this "
    "machine; or 24h for a day ago."
)

HISTORY = (
    Command(
        path=("history",),
        summary="show who did what, when and why",
        text="Show the trail of every change, the oldest first. Several conditions must "
        "all hold. With --summary, tell what became of each operation instead: who "
        "approved, what was planned, and how long VMs were really down.",
        run="forewarn.cli.history:history",
        options=(
            Option(name="--vm", metavar="VM", help="Only what concerns this VM."),
            Option(
                name="--operation",
                metavar="OPERATION",
                help="Only this operation or rollout.",
            ),
            Option(
                name="--rollout",
                metavar="ROLLOUT",
                help="Only this rollout; the same as --operation ROLLOUT.",
            ),
            Option(name="--event", metavar="EVENT_ID", help="Only this event."),
            *SELECTORS,
            NAMES_FILE,
            Option(
                name="--actor",
                metavar="WHO",
                help="Only what was done by somebody: operator, clock, driver, a "
                "token's name.",
            ),
            Option(
                name="--what",
                metavar="TEXT",
                help="Only lines that say this, or begin with it, such as 'event "
                "approved'.",
            ),
            Option(
                name="--since",
                metavar="TIME|DURATION",
                help=f"Only from here on: {_SINCE}",
            ),
            Option(
                name="--until",
                metavar="TIME|DURATION",
                help="Only before: likewise.",
            ),
            Option(
                name="--summary",
                is_flag=True,
                help="Not the trail, but what became of each operation.",
            ),
            Option(
                name="--all",
                is_flag=True,
                help="With --summary: a row for each VM of each operation.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn history --vm web_0 --since 24h",
            "forewarn history --vm web_0 --since 7d --summary",
            "forewarn history --operation op-w2147h2k9m4x3qa8 --summary",
            "forewarn history --what 'event approved' --json",
        ),
    ),
    Command(
        path=("availability",),
        summary="show how long VMs were down, planned or not",
        text="Show how long VMs were down in a period, by why, how often and how long at "
        "most; of a scope also how long several fault domains were down at once. The "
        "percentage is of the time in which a VM was there and records were kept: "
        "time before them is shown as unknown.",
        run="forewarn.cli.history:availability",
        options=(
            Option(name="--vm", metavar="VM", help="Only this VM."),
            Option(name="--scope", metavar="SCOPE", help="Only VMs of this scope."),
            Option(name="--tenant", metavar="TENANT", help="Only VMs of this tenant."),
            Option(
                name="--since",
                metavar="TIME|DURATION",
                help=f"The period's begin; a week ago, unless it is given: {_SINCE}",
            ),
            Option(
                name="--until",
                metavar="TIME|DURATION",
                help="The period's end; now, unless it is given.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn availability --vm web_0",
            "forewarn availability --scope web --since 30d",
            "forewarn availability --since 60d --until 30d --json",
        ),
    ),
)
