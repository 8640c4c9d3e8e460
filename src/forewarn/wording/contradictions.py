"""Sentences about observations that contradict a report of success."""

from collections.abc import Mapping

from forewarn.protocol.blockers import Contradiction, Landing

_LANDINGS: Mapping[Landing, str] = {
    Landing.NOT_TOLD: "did not say which host vm {vm} is on",
    Landing.NOT_LEFT: "vm {vm} is still on {host}",
    Landing.NOT_IN_FLEET: "vm {vm} is on {host}, which is not in the fleet",
}


def contradiction(wrong: Contradiction) -> str:
    """Return what contradicts the success of a call."""
    if wrong.landing is not None:
        return _LANDINGS[wrong.landing].format(vm=wrong.vm, host=wrong.host)
    if wrong.runs is None:
        return f"vm {wrong.vm} is on {wrong.host}, not on {wrong.wanted_host}"
    return f"vm {wrong.vm} {'runs' if wrong.runs else 'does not run'}"
