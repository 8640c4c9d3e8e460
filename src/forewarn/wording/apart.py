"""Sentences about hosts whose maintenance windows are never open together."""

from collections.abc import Sequence

from forewarn.protocol.blockers import NoCommonWindow
from forewarn.texts import count
from forewarn.wording import holds


def hosts(blocker: NoCommonWindow, number: int, tenants: Sequence[str]) -> str:
    """Return that hosts of a plan would wait without end, with the tenants."""
    of = f" (tenants: {', '.join(tenants)})" if tenants else ""
    return f"{count(number, 'host')} would never begin: {holds.hold(blocker)}{of}"


def before_start(scope: str, lines: Sequence[str]) -> str:
    """Return what to do before the start; `lines` are windows that help."""
    windows = " ".join(f"--window '{line}'" for line in lines)
    change = (
        f"Run `forewarn window set {scope} {windows} --reason TEXT` if its tenant agrees"
        if lines
        else "Ask one of the tenants for other windows"
    )
    return f"{change}, or exclude the hosts with [campaign.select] except."


def way_out(scope: str, vm: str) -> str:
    """Return what ends the wait of a host, if one tenant agrees."""
    return (
        "it does not begin by itself: if its tenant agrees, run "
        f"`forewarn expedite {vm} --reason TEXT`, or set other windows of scope {scope} "
        "with `forewarn window set`"
    )
