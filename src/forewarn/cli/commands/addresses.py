"""The commands that let the guests of this host reach the service."""

from forewarn.cli.command_table import JSON, Command, Option

_INPUT = (
    Option(
        name="file",
        metavar="FILE",
        is_optional=True,
        default="addresses.toml",
        help="Which guest is behind which interface; addresses.toml if it is not "
        "named, - for standard input.",
    ),
    Option(
        name="--fleet",
        metavar="FILE",
        help="A fleet file: the VMs' addresses and listeners that FILE leaves out.",
    ),
)
_DRY_RUN = Option(
    name="--dry-run", is_flag=True, help="Print what would be done, and do nothing."
)

GROUP = {"addresses": "let the guests of this host reach 169.254.169.254"}

ADDRESSES = (
    Command(
        path=("addresses", "plan"),
        summary="print how guests would reach 169.254.169.254",
        text="Print the nftables rules and routes by which each guest of this host "
        "reaches the service, as a shell script. Nothing is changed, and root is not "
        "needed.",
        run="forewarn.cli.addresses:plan",
        options=(*_INPUT, JSON),
        examples=(
            "forewarn addresses plan addresses.toml",
            "forewarn addresses plan addresses.toml --fleet fleet.toml",
        ),
    ),
    Command(
        path=("addresses", "apply"),
        summary="let the guests of this host reach 169.254.169.254",
        text="Make this host's rules and routes those of the file: the rules in one "
        "transaction, in tables of our own. What an earlier file wanted and this one "
        "does not is removed. It may be repeated at any time, and is to be when a "
        "routed tap has come back.",
        run="forewarn.cli.addresses:apply",
        options=(*_INPUT, _DRY_RUN),
        examples=(
            "forewarn addresses apply addresses.toml --dry-run",
            "forewarn addresses apply addresses.toml",
        ),
    ),
    Command(
        path=("addresses", "show"),
        summary="show which guests reach 169.254.169.254, and who forges",
        text="Show each guest of the file: whether its interface is there and its "
        "rules are in force, how many packets it has sent to the service, and how "
        "many were dropped because they claimed to be another's.",
        run="forewarn.cli.addresses:show",
        options=(*_INPUT, JSON),
        examples=("forewarn addresses show addresses.toml",),
    ),
    Command(
        path=("addresses", "undo"),
        summary="remove all that `addresses apply` has made",
        text="Remove our nftables tables, routes and rules from this host, and nothing "
        "else. No file is needed: they carry our name and number.",
        run="forewarn.cli.addresses:undo",
        options=(_DRY_RUN,),
        examples=("forewarn addresses undo",),
    ),
)
