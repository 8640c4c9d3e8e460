"""The commands for tokens, receivers of webhooks, the file of the store, and completion."""

from forewarn.cli.command_table import (
    CLIENT,
    DRY_RUN,
    JSON,
    REASON,
    WATCH,
    Command,
    Option,
)
from forewarn.verbs.roles import TENANT_ROLES, Role, role_names

CONSOLE = (
    Command(
        path=("console",),
        summary="open the web console",
        text="Print a link to the web console, and open it if there is a browser. The link "
        "works once, within two minutes, and begins a session with the rights of the token "
        "that the command uses, also of a tenant's. The session ends with this token, and "
        "after 12 hours. The history has who created the link. Without tokens, the "
        "console needs no login, and the link has no secret.",
        run="forewarn.cli.console:console",
        options=(
            Option(
                name="--no-open",
                is_flag=True,
                help="Print the link, and do not open it.",
            ),
            Option(
                name="--at",
                metavar="URL",
                help="Address of the service for the browser, if it differs from --url, "
                "such as that of a proxy.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn console",
            "forewarn console --no-open --at https://forewarn.example.com",
        ),
    ),
)


WEBHOOKS = (
    Command(
        path=("webhook", "list"),
        summary="list receivers and their state",
        text="List the receivers of [[webhook]]: the tenant of each, its pending "
        "messages, its last error, and the next attempt.",
        run="forewarn.cli.webhooks:list_",
        options=CLIENT,
        examples=("forewarn webhook list", "forewarn webhook list --json"),
    ),
    Command(
        path=("webhook", "test"),
        summary="send a receiver a signed ping",
        text="Send a receiver a signed ping at once, and print its response. If it "
        "succeeds, a receiver with paused or refused deliveries gets its pending "
        "messages again. The exit status is 1 if it fails.",
        run="forewarn.cli.webhooks:test",
        options=(
            Option(name="name", metavar="NAME", help="The receiver's name."),
            *CLIENT,
        ),
        examples=("forewarn webhook test shop-oncall",),
    ),
)


BRAKE = (
    Command(
        path=("brake", "on"),
        summary="stop planned work",
        text="Stop planned work: while the brake is on, no maintenance, OS upgrade or "
        "reimage is announced or started. Work that has started continues, and so do "
        "failures, predicted failures and requests of users. The brake comes on by itself "
        "if more hosts or VMs are lost than [brake] in forewarn.toml allows; then announced "
        "work is withdrawn.",
        run="forewarn.cli.brake:put_on",
        options=(
            REASON,
            DRY_RUN,
            Option(
                name="--withdraw",
                is_flag=True,
                help="Withdraw announced planned work, too, instead of holding it. Hosts "
                "of a rollout are announced again after the brake.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn brake on --reason 'power is unstable'",
            "forewarn brake on --withdraw --reason 'the new firmware is bad'",
        ),
    ),
    Command(
        path=("brake", "off"),
        summary="resume planned work",
        text="Resume planned work. Operations that the brake held are checked at once.",
        run="forewarn.cli.brake:take_off",
        options=(REASON, DRY_RUN, *CLIENT),
        examples=("forewarn brake off --reason 'power is stable again'",),
    ),
    Command(
        path=("brake", "show"),
        summary="show whether the brake is on",
        text="Show whether the brake is on, who put it on, and why.",
        run="forewarn.cli.brake:show",
        options=CLIENT,
        examples=("forewarn brake show", "forewarn brake show --json"),
    ),
)


BLACKOUTS = (
    Command(
        path=("blackout", "show"),
        summary="show the blackouts of the service",
        text="Show the blackouts of the service: the current or next time of each, the "
        "part of the fleet, who set it, and why.",
        run="forewarn.cli.blackouts:show",
        options=CLIENT,
        examples=("forewarn blackout show", "forewarn blackout show --json"),
    ),
)


DEFERRALS = (
    Command(
        path=("deferrals",),
        summary="show what tenants have deferred or expedited",
        text="Show what tenants have deferred or expedited in open rollouts. With a "
        "tenant's token, show only its own.",
        run="forewarn.cli.choices:show",
        options=(
            Option(name="--tenant", metavar="TENANT", help="Only this tenant."),
            Option(name="--scope", metavar="SCOPE", help="Only this scope."),
            *CLIENT,
        ),
        examples=("forewarn deferrals", "forewarn deferrals --tenant shop --json"),
    ),
    Command(
        path=("upcoming",),
        summary="show the coming work on a tenant's VMs",
        text="Show the announced and planned work on the VMs of a tenant: the impact, before "
        "which time it does not begin unless it is approved, and by which day it is "
        "expected to begin. LATEST is an estimate, and unknown if there is none. With a "
        "tenant's token, show that of its VMs.",
        run="forewarn.cli.upcoming:show",
        options=(
            Option(
                name="--tenant",
                metavar="TENANT",
                help="The tenant; required without a tenant's token.",
            ),
            Option(name="--scope", metavar="SCOPE", help="Only VMs of this scope."),
            Option(name="--vm", metavar="VM", help="Only this VM."),
            WATCH,
            *CLIENT,
        ),
        examples=(
            "forewarn upcoming",
            "forewarn upcoming --watch",
            "forewarn upcoming --tenant shop --json",
        ),
    ),
)


WINDOWS = (
    Command(
        path=("window", "show"),
        summary="show the maintenance windows of scopes",
        text="Show the maintenance windows of scopes, and when they open next. With a "
        "tenant's token, show those of its scopes.",
        run="forewarn.cli.windows:show",
        options=(
            Option(
                name="scope",
                metavar="SCOPE",
                is_optional=True,
                help="Only this scope.",
            ),
            *CLIENT,
        ),
        examples=("forewarn window show", "forewarn window show web --json"),
    ),
)


CHECKS = (
    Command(
        path=("check", "list"),
        summary="list checks and their last results",
        text="List the checks of [check.NAME] with their last results. A result that is too "
        "old is unknown. NEEDED has the checks that are asked regularly now.",
        run="forewarn.cli.checks:list_",
        options=CLIENT,
        examples=("forewarn check list", "forewarn check list --json"),
    ),
    Command(
        path=("check", "run"),
        summary="ask a check now",
        text="Ask a check now, and print its outcome and the reason. The exit status is 1 "
        "unless it passes.",
        run="forewarn.cli.checks:run",
        options=(
            Option(name="name", metavar="NAME", help="The check's name."),
            *CLIENT,
        ),
        examples=("forewarn check run error-rate",),
    ),
)


CLUSTER = (
    Command(
        path=("cluster", "show"),
        summary="show the replicas: who leads, and how far each is behind",
        text="Show who leads and for how long, how far each replica is behind, and whether "
        "the database has a synchronous standby. Every replica answers, from what it sees "
        "itself. Without replicas, it says so.",
        run="forewarn.cli.cluster:show",
        options=CLIENT,
        examples=("forewarn cluster show", "forewarn cluster show --json"),
    ),
)


_TENANT = Option(
    name="--tenant",
    metavar="TENANT",
    help="The tenant of the token. Default: an operator token.",
)

TOKENS = (
    Command(
        path=("token", "create"),
        summary="create a token for an operator, a tenant or a relay",
        text="Create a token and print only it on standard output. It is shown once: "
        "the service stores a digest. With --tenant, it is for that tenant's VMs and "
        "shows nothing of others. Its holder sets FOREWARN_TOKEN. With --relay, it is for "
        "the relay of that host and its VMs.",
        run="forewarn.cli.tokens:create",
        options=(
            _TENANT,
            Option(
                name="--relay",
                metavar="HOST",
                help="The host whose relay holds the token. It can do nothing except "
                "what that relay does, and by default it does not expire.",
            ),
            Option(
                name="--name",
                metavar="NAME",
                help="Name of the holder in the history; no other token can have it. "
                "Default: a name made from the token's ID.",
            ),
            Option(
                name="--read-only",
                is_flag=True,
                help="The token can only read: short for --role view.",
            ),
            Option(
                name="--role",
                repeated=True,
                choices=tuple(role.value for role in Role),
                help="Rights of the holder: "
                + "; ".join(f"`{role.value}` {role.about}" for role in Role)
                + ". Each includes `view`. Can be given several times. Default: all, "
                f"which are {role_names(TENANT_ROLES)} for a tenant.",
            ),
            Option(
                name="--expires-in",
                metavar="DURATION",
                help="Lifetime, such as 30d, or never. Default: 90d.",
            ),
            REASON,
            *CLIENT,
        ),
        examples=(
            "forewarn token create --tenant shop --name ci --expires-in 30d",
            "forewarn token create --name dashboard --read-only",
            "forewarn token create --name alice --role plan --role run",
            "forewarn token create --relay h1",
        ),
    ),
    Command(
        path=("token", "list"),
        summary="list tokens, without their secrets",
        text="List the tokens in the store, expired ones too, with their last use "
        "rounded to the hour. Tokens in [admin] token_file are not listed.",
        run="forewarn.cli.tokens:list_tokens",
        options=(
            Option(
                name="--tenant", metavar="TENANT", help="Only tokens of this tenant."
            ),
            *CLIENT,
        ),
        examples=("forewarn token list", "forewarn token list --tenant shop --json"),
    ),
    Command(
        path=("token", "revoke"),
        summary="revoke a token",
        text="Revoke a token. From then on it is refused, and streams that use it end.",
        run="forewarn.cli.tokens:revoke",
        options=(
            Option(name="token_id", metavar="ID", help="ID of the token in the list."),
            REASON,
            *CLIENT,
        ),
        examples=("forewarn token revoke tk-4h7k2m9xqa",),
    ),
)


_CONFIG = Option(
    name="--config",
    metavar="FILE",
    help="Settings file with [store]. Default: forewarn.toml, if it exists.",
)

_STORE = Option(
    name="file",
    metavar="STORE",
    is_optional=True,
    help="A file, or the URL of a store. Default: [store] url.",
)

UPKEEP = (
    Command(
        path=("store", "check"),
        summary="check the consistency of a store",
        text="Check a store: the pages of its file, each row, and the relations "
        "between the rows. Each violation is printed as a sentence. The store is only "
        "read: it can be a backup, or the store of a running service. In PostgreSQL, "
        "the check reads a snapshot, and the server itself checks the pages.",
        run="forewarn.cli.store:check",
        options=(
            _STORE,
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store check", "forewarn store check backup.db --json"),
    ),
    Command(
        path=("store", "backup"),
        summary="copy the store to a file, even while the service runs",
        text="Copy the store to a file as it is at one moment, while the service "
        "continues to run. The copy is checked before it gets its name. No file is "
        "overwritten. The file is a store: of a store in PostgreSQL too, for which "
        "`forewarn store copy` restores it.",
        run="forewarn.cli.store:backup",
        options=(
            Option(name="file", metavar="FILE", help="The file to write."),
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store backup /var/backups/forewarn.db",),
    ),
    Command(
        path=("store", "restored"),
        summary="let relays follow a store that was restored from a backup",
        text="Begin a restored store above all that was served from the lost one, before "
        "the service starts with it: its term, and the documents of all VMs. A relay "
        "does not follow a store that has lost what it has served, because it may be an "
        "old copy. Stop the service first.",
        run="forewarn.cli.store:restored",
        options=(
            _STORE,
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store restored forewarn.db",),
    ),
    Command(
        path=("store", "copy"),
        summary="copy a store to an empty one, also of another kind",
        text="Copy all rows of a store as they are at one moment, and compare the "
        "number and the digest of the rows of each table before they are committed. "
        "The target is a new file, or a database without rows. If the command fails or "
        "is killed, the target has no rows. The copy does not have later changes of a "
        "running service, so stop the service first to move a store.",
        run="forewarn.cli.store:copy",
        options=(
            Option(
                name="from",
                metavar="FROM",
                help="A file, or the URL of a store: sqlite:///PATH, postgresql://…",
            ),
            Option(name="to", metavar="TO", help="The same, for the target."),
            JSON,
        ),
        examples=(
            "forewarn store copy forewarn.db postgresql://forewarn@db.example/forewarn",
            "forewarn store copy postgresql://forewarn@db.example/forewarn forewarn.db",
        ),
    ),
    Command(
        path=("completion",),
        summary="print a shell completion script",
        text="Print a script that completes the commands, their options and the "
        "values of options. Bash and fish read it from their directories of "
        "completions. For zsh, add this line to .zshrc after compinit: source "
        "<(forewarn completion zsh).",
        run="forewarn.cli.completion:completion",
        options=(
            Option(
                name="shell",
                choices=("bash", "zsh", "fish"),
                help="The shell that reads the script.",
            ),
        ),
        examples=("forewarn completion bash", "forewarn completion zsh"),
    ),
)
