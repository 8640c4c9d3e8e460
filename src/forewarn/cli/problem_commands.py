"""The command that the list of problems offers for each problem."""

from collections.abc import Callable, Mapping

from forewarn.cli.client import Json


def command_for(problem: Json) -> str:
    """Return a command to copy: the first action that needs no decision.

    If an operator must choose or look first, it explains the problem. Empty: there is
    nothing to explain.
    """
    for action in problem["actions"]:
        build = _COMMANDS.get(action)
        if build and (command := build(problem)):
            return f"forewarn {command}"
    # The visit of a host of a campaign has both.
    name = problem["operation"] or problem["campaign"] or problem["target"]
    return f"forewarn explain {name}" if name else ""


def _maintain(problem: Json) -> str:
    """Return the command that spreads the VMs of a host again."""
    return f"maintain {problem['target']} --impact live-migrate"


def _retry_in_campaign(problem: Json) -> str:
    """Return the command for the failed hosts of a campaign."""
    campaign, hosts = problem["campaign"], problem["hosts"]
    which = hosts[0] if len(hosts) == 1 else "--failed"
    return f"campaign retry {campaign} {which}" if campaign else ""


def _blackout(problem: Json) -> str:
    """Return the command for a blackout, which needs a reason."""
    name = problem["problem"].partition(":")[2]
    return f"blackout remove {name} --reason TEXT"


_COMMANDS: Mapping[str, Callable[[Json], str]] = {
    "restore": lambda problem: f"restore {problem['target']}",
    "maintain": _maintain,
    "brake off": lambda _: "brake off",
    "host open": lambda problem: f"host open {problem['target']}",
    "relay list": lambda problem: f"relay list --host {problem['hosts'][0]}",
    "blackout remove": _blackout,
    "visit retry": lambda problem: f"visit retry {problem['target']}",
    "campaign retry": _retry_in_campaign,
    "webhook test": lambda problem: f"webhook test {problem['webhook']}",
    "cluster show": lambda _: "cluster show",
}
"""The commands of actions that need no decision. The others, such as `campaign resume`,
`resolve`, `fail` and `approve`, need one."""
