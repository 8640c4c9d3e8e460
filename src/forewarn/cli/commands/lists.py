"""The commands that list and explain the current state."""

from forewarn.cli.command_table import (
    CLIENT,
    NAMES_FILE,
    SELECTORS,
    WATCH,
    Command,
    Option,
)
from forewarn.verbs.explained_kinds import EXPLAINED_KINDS
from forewarn.verbs.problem_kinds import PROBLEM_KINDS

_VM = Option(name="--vm", metavar="VM", help="Only this VM.")
_ROLLOUT = Option(name="--rollout", metavar="ROLLOUT", help="Only this rollout.")
_FILTERS = (
    _VM,
    *SELECTORS,
    NAMES_FILE,
    _ROLLOUT,
)
LISTS = (
    Command(
        path=("operations",),
        summary="list planned and running maintenance",
        text="List operations: planned and running maintenance, and the reasons why "
        "each waits.",
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
                help="Only operations in this state.",
            ),
            Option(
                name="--all",
                is_flag=True,
                help="Include ended operations. Not with --watch.",
            ),
            WATCH,
            *CLIENT,
        ),
        examples=(
            "forewarn operations --host h1",
            "forewarn operations --watch --json",
        ),
    ),
    Command(
        path=("rollout", "list"),
        summary="list requests for several hosts or VMs",
        text="List the open rollouts, with the number of their operations in each "
        "state.",
        run="forewarn.cli.lists:rollouts",
        options=(
            *_FILTERS[:-1],
            Option(name="--all", is_flag=True, help="Include ended rollouts."),
            WATCH,
            *CLIENT,
        ),
        examples=(
            "forewarn rollout list",
            "forewarn rollout list --all --json",
            "forewarn rollout list --watch",
        ),
    ),
    Command(
        path=("rollout", "show"),
        summary="show a rollout with its operations",
        text="Show a rollout: its actor and reason, and a row for each operation, "
        "including ended ones.",
        run="forewarn.cli.lists:rollout",
        options=(
            Option(
                name="rollout",
                metavar="ROLLOUT",
                help="ID of the rollout, such as ro-w2147h2k9m4x3qa8.",
            ),
            *CLIENT,
        ),
        examples=("forewarn rollout show ro-w2147h2k9m4x3qa8",),
    ),
    Command(
        path=("events",),
        summary="list the events that VMs see",
        text="List events, as the VMs of each scope see them.",
        run="forewarn.cli.lists:events",
        options=(
            *_FILTERS,
            Option(
                name="--state",
                choices=("scheduled", "started", "removed"),
                help="Only events in this state.",
            ),
            Option(
                name="--all",
                is_flag=True,
                help="Include removed events. Not with --watch.",
            ),
            WATCH,
            *CLIENT,
        ),
        examples=(
            "forewarn events --vm web_0",
            "forewarn events --tenant shop --watch",
        ),
    ),
    Command(
        path=("explain",),
        summary="show why an object waits, and who can continue it",
        text="Show the state of an operation, rollout, event, campaign, host, VM or any other "
        "object with a name, and every reason why its work waits. Reasons with a remedy come "
        "first. A host, VM or campaign comes before another object with the same name.",
        run="forewarn.cli.attention:explain",
        options=(
            Option(
                name="id",
                metavar="ID",
                help="ID of an operation, rollout, event, visit, problem or token, or name of a campaign, "
                "host, VM, scope, tenant, blackout, check, webhook, token, replica, rack, "
                "cluster, zone or pool; or brake.",
            ),
            Option(
                name="--kind",
                choices=EXPLAINED_KINDS,
                help="Which to explain if several have the same name.",
            ),
            *CLIENT,
        ),
        examples=("forewarn explain op-w2147h2k9m4x3qa8", "forewarn explain web_0"),
    ),
    Command(
        path=("problems",),
        summary="list problems that need attention, the worst first",
        text="List problems that need attention, the worst first: VMs that are down, "
        "many VMs that stopped at once, calls with an unknown outcome, a driver that "
        "fails, hosts with two fault domains of a scope, late approvals, silent relays, held "
        "operations, late webhooks, hosts that were cordoned more than a day ago, "
        "campaigns that are halted, wait for an approval or make no progress, "
        "blackouts of the service for which hosts wait longer than a day, and a "
        "service that is not ready. The exit status is 1 if there is a problem.",
        run="forewarn.cli.attention:problems",
        options=(
            *_FILTERS,
            Option(
                name="--kind",
                choices=PROBLEM_KINDS,
                help="Only problems of this kind.",
            ),
            WATCH,
            *CLIENT,
        ),
        examples=("forewarn problems", "forewarn problems --kind vm-down --json"),
    ),
    Command(
        path=("waits",),
        summary="list the tenants whose approval is missing",
        text="List the tenants whose approval is missing, the longest wait first. A second "
        "table has the windows, deferrals, blackouts and silent relays that hold maintenance, with the "
        "number of hosts and the next opening.",
        run="forewarn.cli.attention:waits",
        options=(
            _VM,
            *SELECTORS,
            _ROLLOUT,
            *CLIENT,
        ),
        examples=("forewarn waits", "forewarn waits --tenant shop"),
    ),
    Command(
        path=("capacity",),
        summary="list free capacity by zone and cluster, and the needs of the next hosts",
        text="List the free capacity of the hosts in each zone and cluster, how many of them are down, "
        "in work or cordoned, and the capacity that the next host of each rollout needs. "
        "A selector of VMs selects the hosts on which they are.",
        run="forewarn.cli.attention:capacity",
        options=(
            _VM,
            *SELECTORS,
            *CLIENT,
        ),
        examples=("forewarn capacity", "forewarn capacity --rack r7 --json"),
    ),
)
