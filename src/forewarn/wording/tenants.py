"""What tenants are told of reasons that name others."""

from forewarn.protocol.blockers import ByPlatform, Redacted

_SAID = {
    Redacted.OWN_DOMAIN: "another fault domain of scope {} is down",
    Redacted.NO_CAPACITY: "the platform has no place for vm {} at present",
    Redacted.ELSEWHERE: "another tenant has not approved",
    Redacted.HELD: "the platform holds it back for now",
    Redacted.RETRIES: "the platform did not succeed and tries again",
    Redacted.UNKNOWN: "the platform does not know yet whether it was done",
    Redacted.DOWN: "what it runs on is down",
}


def redacted(blocker: ByPlatform) -> str:
    """Return a redacted reason, without the names of others."""
    return _SAID[blocker.what].format(blocker.name)
