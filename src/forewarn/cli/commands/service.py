"""The commands about the service itself and its fleet."""

from forewarn.cli.command_table import (
    CLIENT,
    JSON,
    NAMES_FILE,
    REASON,
    SELECTORS,
    Command,
    Option,
)

_CONFIG = Option(
    name="--config",
    metavar="FILE",
    help="The settings; else forewarn.toml where there is one.",
)
_FILE = Option(
    name="file",
    metavar="FILE",
    is_optional=True,
    default="fleet.toml",
    help="The fleet file; fleet.toml if it is not named, - for standard input.",
)
_SETTINGS = "forewarn.cli.settings:options"

SERVICE = (
    Command(
        path=("serve",),
        summary="run the service",
        text="Run the service: the endpoint that VMs ask, the operator API, and what "
        "decides. Every setting of forewarn.toml is a flag and a variable too: a flag "
        "beats a variable, and that beats the file.",
        run="forewarn.cli.serve:serve",
        options=(
            _CONFIG,
            Option(
                name="--fleet",
                metavar="FILE",
                help="Apply this fleet file before anything is served.",
            ),
        ),
        more=_SETTINGS,
        examples=(
            "forewarn serve --config forewarn.toml --fleet fleet.toml",
            "forewarn serve --store-url memory:// --timing-speed 60",
        ),
    ),
    Command(
        path=("config", "show"),
        summary="print the settings in force",
        text="Print every setting in force with where it came from, as `serve` with "
        "the same flags would read it. The files that settings name are not looked "
        "at: `config check` does that.",
        run="forewarn.cli.settings:show",
        options=(_CONFIG, JSON),
        more=_SETTINGS,
        examples=("forewarn config show --config forewarn.toml",),
    ),
    Command(
        path=("config", "check"),
        summary="say whether serve would start with the settings",
        text="Check the settings and what they name, as `serve` with the same flags "
        "would before it opens anything: tokens, secrets, certificates, the driver's "
        "programs, the store's folder. Every fault is told, and then the status is 2. "
        "Run it as the user that the service runs as, from its folder.",
        run="forewarn.cli.settings:check",
        options=(_CONFIG,),
        more=_SETTINGS,
        examples=("forewarn config check --config forewarn.toml",),
    ),
    Command(
        path=("fleet", "validate"),
        summary="check a fleet file, without a service",
        text="Check a fleet file by itself and tell of every problem. No service is "
        "asked.",
        run="forewarn.cli.validate:validate",
        options=(_FILE, JSON),
        examples=("forewarn fleet validate fleet.toml",),
    ),
    Command(
        path=("fleet", "apply"),
        summary="make the fleet what a file says",
        text="Apply a fleet file: all of it or nothing. What its author changed is "
        "changed; a VM that a migration moved stays where it is.",
        run="forewarn.cli.fleet:apply",
        options=(
            _FILE,
            Option(
                name="--dry-run",
                is_flag=True,
                help="Print what would change, and change nothing.",
            ),
            Option(
                name="--allow-empty",
                is_flag=True,
                help="Apply a file without anything in it, too: it removes everything.",
            ),
            REASON,
            *CLIENT,
        ),
        examples=(
            "forewarn fleet apply fleet.toml --dry-run",
            "forewarn fleet apply fleet.toml --reason 'two new hosts'",
        ),
    ),
    Command(
        path=("fleet", "show"),
        summary="show hosts, scopes and VMs",
        text="Show the fleet as it is: a row for each host, with how many VMs it has and "
        "how many of them are down. With --all also scopes with who listens, and VMs. A "
        "VM's state is down from a failure until it is restored; what has started on it "
        "stands beside it.",
        run="forewarn.cli.fleet:show",
        options=(
            Option(
                name="--all", is_flag=True, help="Also a row for each scope and VM."
            ),
            *SELECTORS,
            NAMES_FILE,
            *CLIENT,
        ),
        examples=("forewarn fleet show", "forewarn fleet show --all --scope web"),
    ),
    Command(
        path=("fleet", "export"),
        summary="write the fleet as a fleet file",
        text="Write the fleet as it is as a fleet file, to standard output or a file.",
        run="forewarn.cli.fleet:export",
        options=(
            Option(
                name="file",
                metavar="FILE",
                is_optional=True,
                help="Where to write it; standard output if it is not named.",
            ),
            *CLIENT,
        ),
        examples=("forewarn fleet export now.toml",),
    ),
)

GROUPS = {
    "fleet": "check, apply, show and export the fleet",
    "config": "look at the settings, and check them",
}
"""Words that begin several commands."""
