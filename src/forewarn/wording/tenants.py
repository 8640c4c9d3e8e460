"""Texts for tenants about reasons that involve others."""

from forewarn.protocol.blockers import ByPlatform, Redacted

_SAID = {
    Redacted.OWN_DOMAIN: "another fault domain of scope {} is down",
    Redacted.NO_CAPACITY: "the platform has no capacity for VM {} now",
    Redacted.ELSEWHERE: "another tenant has not approved",
    Redacted.HELD: "the platform holds it for now",
    Redacted.RETRIES: "the platform failed and will try again",
    Redacted.UNKNOWN: "the platform does not know the outcome yet",
    Redacted.DOWN: "the host is not available",
}


def redacted(blocker: ByPlatform) -> str:
    """Return a redacted reason, without the names of others."""
    return _SAID[blocker.what].format(blocker.name)


_UNKNOWN = {
    "held": "the platform holds it for now",
    "no estimate": "there is no estimate yet",
    "no opening": "the maintenance windows have no common opening",
}


def why_unknown(why: str) -> str:
    """Return why the latest time of coming work is unknown."""
    return _UNKNOWN[why]
