"""The commands for the history and the availability."""

from forewarn.cli.command_table import CLIENT, NAMES_FILE, SELECTORS, Command, Option

_SINCE = (
    "2026-11-21T10:00:00Z with any offset, 2026-11-21T10:00 in the local time of this "
    "machine, or 24h for a day ago."
)

HISTORY = (
    Command(
        path=("history",),
        summary="show all changes with actor, time and reason",
        text="Show the history of all changes, the oldest first. All filters must "
        "match. With --summary, show the account of each operation instead: "
        "approvals, planned times, and the actual downtime of VMs.",
        run="forewarn.cli.history:history",
        options=(
            Option(name="--vm", metavar="VM", help="Only entries about this VM."),
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
                help="Only actions of this actor: operator, clock, driver, or the "
                "name of a token.",
            ),
            Option(
                name="--what",
                metavar="TEXT",
                help="Only entries with this text, or this beginning, such as 'event "
                "approved'.",
            ),
            Option(
                name="--since",
                metavar="TIME|DURATION",
                help=f"Only from this time: {_SINCE}",
            ),
            Option(
                name="--until",
                metavar="TIME|DURATION",
                help="Only before this time, in the same form.",
            ),
            Option(
                name="--summary",
                is_flag=True,
                help="Show the account of each operation instead of the history.",
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
        summary="show the planned and unplanned downtime of VMs",
        text="Show the downtime of VMs in a period: by cause, the number of "
        "interruptions, and the longest one. For a scope, also show how long several "
        "fault domains were down at once. The percentage is of the time in which a VM "
        "existed and records were kept. Time before the records is shown as unknown. "
        "Host, places, labels and tags are those that a VM has now.",
        run="forewarn.cli.history:availability",
        options=(
            Option(name="--vm", metavar="VM", help="Only this VM."),
            *SELECTORS,
            Option(
                name="--since",
                metavar="TIME|DURATION",
                help=f"Start of the period. Default: a week ago. {_SINCE}",
            ),
            Option(
                name="--until",
                metavar="TIME|DURATION",
                help="End of the period. Default: now.",
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
