"""The settings of a simulated hypervisor that cannot do everything."""

import pytest

from forewarn.drivers.limited import Limited, parse_limited
from forewarn.protocol.abilities import Able
from forewarn.protocol.operations import Action


def test_limit_names_an_action_and_a_host_or_a_vm() -> None:
    assert parse_limited("live-migrate host=h1") == Limited(
        action=Action.LIVE_MIGRATE, host="h1"
    )
    assert parse_limited("freeze vm=web_0 able=unknown") == Limited(
        action=Action.FREEZE, vm="web_0", able=Able.UNKNOWN
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not an action"),
        ("teleport host=h1", "'teleport' is not an action"),
        ("none host=h1", "'none' is not an action"),
        ("freeze", "a limit needs one host or one VM"),
        ("freeze host=h1 vm=a", "a limit needs one host or one VM"),
        ("freeze host=", "'host=' is not a part of a limit"),
        ("freeze host=h1 host=h2", "'host=h2' is not a part of a limit"),
        ("freeze rack=r1", "'rack=r1' is not a part of a limit"),
        ("freeze host=h1,", "is not a name"),
        ("freeze host=h1 able=no", "able can only be unknown, not 'no'"),
    ],
)
def test_limit_that_is_not_valid_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_limited(text)
