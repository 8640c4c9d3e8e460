"""The commands for the service and its fleet."""

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
    help="Settings file. Default: forewarn.toml, if it exists.",
)
_FILE = Option(
    name="file",
    metavar="FILE",
    is_optional=True,
    default="fleet.toml",
    help="Fleet file; - for standard input. Default: fleet.toml.",
)
_SETTINGS = "forewarn.cli.settings:options"

SERVICE = (
    Command(
        path=("serve",),
        summary="run the service",
        text="Run the service: the endpoint for VMs, the operator API, and the "
        "control plane. Every setting of forewarn.toml is also a flag and a variable. "
        "A flag overrides a variable, and a variable overrides the file.",
        run="forewarn.cli.serve:serve",
        options=(
            _CONFIG,
            Option(
                name="--fleet",
                metavar="FILE",
                help="Fleet file to apply at the start.",
            ),
        ),
        more=_SETTINGS,
        examples=(
            "forewarn serve --config forewarn.toml --fleet fleet.toml",
            "forewarn serve --store-url memory:// --timing-speed 60",
        ),
    ),
    Command(
        path=("relay",),
        summary="run the relay of a host",
        text="Run the relay of this host. It answers the VMs of the host at the metadata "
        "address, from documents that it gets from the service in advance, and forwards "
        "their requests to the service. While the service is unreachable, the relay "
        "continues to answer, and VMs that approve get 503. Each host has its own token, "
        "which gives access only to its VMs: create it with `forewarn token create --relay HOST`. Every setting of "
        "relay.toml is also a flag and a variable.",
        run="forewarn.cli.relay:relay",
        options=(
            Option(
                name="--config",
                metavar="FILE",
                help="Settings file. Default: relay.toml, if it exists.",
            ),
        ),
        more="forewarn.cli.relay:options",
        examples=(
            "forewarn relay --config /etc/forewarn/relay.toml",
            "forewarn relay --url https://control.example:8200 --listen 0.0.0.0:80",
        ),
    ),
    Command(
        path=("relay", "list"),
        summary="list the relays of all hosts",
        text="List the hosts for whose relay a token exists, and whether the relay is "
        "connected: since when, when it last sent a request, and for how long a change "
        "waits until it takes it. Times before the last start of the service are not "
        "known.",
        run="forewarn.cli.relay_list:list_",
        options=(*SELECTORS, *CLIENT),
        examples=("forewarn relay list", "forewarn relay list --rack r7 --json"),
    ),
    Command(
        path=("config", "show"),
        summary="print the settings in force",
        text="Print every setting in force and the source of its value, as `serve` "
        "with the same flags would read it. The files that settings name are not "
        "read; use `config check` for that.",
        run="forewarn.cli.settings:show",
        options=(_CONFIG, JSON),
        more=_SETTINGS,
        examples=("forewarn config show --config forewarn.toml",),
    ),
    Command(
        path=("config", "check"),
        summary="check whether serve would start with the settings",
        text="Check the settings and the files that they name, as `serve` with the "
        "same flags would at its start: tokens, secrets, certificates, the driver's "
        "programs, and the directory of the store. All errors are printed, and the "
        "status is 2 if there are any. Run it as the user of the service, in its "
        "directory.",
        run="forewarn.cli.settings:check",
        options=(_CONFIG,),
        more=_SETTINGS,
        examples=("forewarn config check --config forewarn.toml",),
    ),
    Command(
        path=("fleet", "validate"),
        summary="check a fleet file, without a service",
        text="Check a fleet file and print every problem. The command contacts no "
        "service.",
        run="forewarn.cli.validate:validate",
        options=(_FILE, JSON),
        examples=("forewarn fleet validate fleet.toml",),
    ),
    Command(
        path=("fleet", "apply"),
        summary="apply a fleet file",
        text="Apply a fleet file completely, or not at all. Fields that the author "
        "changed are changed. A VM that a migration moved stays where it is.",
        run="forewarn.cli.fleet:apply",
        options=(
            _FILE,
            Option(
                name="--dry-run",
                is_flag=True,
                help="Print the changes without making them.",
            ),
            Option(
                name="--allow-empty",
                is_flag=True,
                help="Accept an empty file, which removes everything.",
            ),
            Option(
                name="--inventory",
                is_flag=True,
                help="The file is the output of `fleet discover`. It is merged separately "
                "from the files that people apply. Their values take precedence.",
            ),
            Option(
                name="--removals-max",
                metavar="NUMBER|PERCENT",
                help="With --inventory: maximum hosts, and maximum VMs, that may be "
                "removed. Default: 2% of those that came from an inventory.",
            ),
            REASON,
            *CLIENT,
        ),
        examples=(
            "forewarn fleet apply fleet.toml --dry-run",
            "forewarn fleet apply fleet.toml --reason 'two new hosts'",
            "forewarn fleet apply inventory.toml --inventory",
        ),
    ),
    Command(
        path=("fleet", "show"),
        summary="show hosts, scopes and VMs",
        text="Show a row for each host, with the number of its VMs, and how many of "
        "them are down. With --all, also show scopes with their enabled views, and VMs. A "
        "VM is down from a failure until it is restored. Its row has the operations "
        "that have started on it.",
        run="forewarn.cli.fleet:show",
        options=(
            Option(
                name="--all",
                is_flag=True,
                help="Also print a row for each scope and VM.",
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
        text="Write the current fleet as a fleet file, to standard output or a file.",
        run="forewarn.cli.fleet:export",
        options=(
            Option(
                name="file",
                metavar="FILE",
                is_optional=True,
                help="The file to write. Default: standard output.",
            ),
            *CLIENT,
        ),
        examples=("forewarn fleet export now.toml",),
    ),
    Command(
        path=("fleet", "discover"),
        summary="write the hosts and VMs of an inventory as a fleet file",
        text="Ask libvirt, or run a program that prints an inventory as JSON, and write "
        "the hosts and VMs as a fleet file, sorted by name. Equal inventories give equal "
        "files. If a host does not answer, the program fails or its output is invalid, "
        "nothing is written. The command contacts no service.",
        run="forewarn.cli.discover:discover",
        options=(
            Option(
                name="file",
                metavar="FILE",
                is_optional=True,
                help="The file to write. Default: standard output.",
            ),
            Option(
                name="--command",
                metavar="PROGRAM",
                help="The program and its arguments, as in a shell. It runs in the "
                "directory / with the environment of a driver's program.",
            ),
            Option(
                name="--libvirt",
                metavar="URI",
                repeated=True,
                help="The URI of a host's libvirt, such as qemu+ssh://root@h1/system. Give "
                "the option once for each host.",
            ),
            Option(
                name="--python",
                metavar="PROGRAM",
                help="With --libvirt: a Python that has the module libvirt. Default: "
                "/usr/bin/python3.",
            ),
            Option(
                name="--timeout",
                metavar="DURATION",
                help="Maximum time of the program, or of libvirt. Default: 2m.",
            ),
        ),
        examples=(
            "forewarn fleet discover --command /etc/forewarn/inventory",
            "forewarn fleet discover fleet.toml --command '/etc/forewarn/inventory --all'",
            "forewarn fleet discover --libvirt qemu:///system",
        ),
    ),
)
