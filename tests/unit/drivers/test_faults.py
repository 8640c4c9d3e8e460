"""Faults in the notation of the settings."""

import pytest

from forewarn.drivers.tasks import Fault, FaultKind, parse_fault
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import Action


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reboot fail", Fault(kind=FaultKind.FAIL, action=Action.REBOOT)),
        ("any forget", Fault(kind=FaultKind.FORGET)),
        (
            " live_migrate  stall times=always vm=web_0 ",
            Fault(
                kind=FaultKind.STALL, action=Action.LIVE_MIGRATE, vm="web_0", times=None
            ),
        ),
        ("any refuse times=3", Fault(kind=FaultKind.REFUSE, times=3)),
        (
            "freeze lie",
            Fault(kind=FaultKind.LIE, action=Action.FREEZE, leaves_down=True),
        ),
        (
            "any fail vm=web_0 others=done left=down",
            Fault(
                kind=FaultKind.FAIL, vm="web_0", spares_others=True, leaves_down=True
            ),
        ),
        (
            "redeploy fail host=h3",
            Fault(kind=FaultKind.FAIL, action=Action.REDEPLOY, elsewhere="h3"),
        ),
        ("work stall", Fault(kind=FaultKind.STALL, step=StepKind.WORK)),
        (
            "needed not-needed times=2",
            Fault(kind=FaultKind.NOT_NEEDED, step=StepKind.NEEDED, times=2),
        ),
        (
            "live_migrate land vm=web_0 host=h3",
            Fault(
                kind=FaultKind.LAND,
                action=Action.LIVE_MIGRATE,
                vm="web_0",
                elsewhere="h3",
            ),
        ),
        ("any untold", Fault(kind=FaultKind.UNTOLD)),
        ("any unseen vm=a", Fault(kind=FaultKind.UNSEEN, vm="a")),
        (
            "reboot mark-lost vm=a",
            Fault(kind=FaultKind.MARK_LOST, action=Action.REBOOT, vm="a"),
        ),
        (
            "work mark-unreadable",
            Fault(kind=FaultKind.MARK_UNREADABLE, step=StepKind.WORK),
        ),
        ("any lie host=h3", Fault(kind=FaultKind.LIE, elsewhere="h3")),
        (
            "any unknown vm=web_0 others=done",
            Fault(kind=FaultKind.UNKNOWN, vm="web_0", spares_others=True),
        ),
    ],
)
def test_fault_is_parsed_from_text(text: str, expected: Fault) -> None:
    assert parse_fault(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' is not a fault: write ACTION KIND"),
        ("reboot", "'reboot' is not a fault"),
        ("none fail", "'none' is not one of any, freeze, live_migrate"),
        ("live-migrate fail", "'live-migrate' is not one of"),
        (
            "reboot Fail",
            "'Fail' is not one of fail, stall, lie, refuse, forget, unknown",
        ),
        ("work not-needed", "not-needed is a fault of needed"),
        ("any not-needed", "not-needed is a fault of needed"),
        ("verify fail vm=a", "a fault of a host step can only have times"),
        ("reboot fail once", "'once' is not part of a fault"),
        ("reboot fail vm=", "'vm=' is not part of a fault"),
        ("reboot fail vm=a vm=b", "'vm=b' is not part of a fault"),
        ("reboot fail times=0", "times must be 1 to 1000000, or always, not '0'"),
        ("reboot fail times=-1", "times must be"),
        ("reboot fail times=1000001", "times must be"),
        ("reboot fail others=some vm=a", "others can only be done, not 'some'"),
        ("reboot fail others=done", "others=done needs the vm"),
        ("reboot stall left=down", "a fault 'stall' cannot have left"),
        ("reboot unknown host=h1", "a fault 'unknown' cannot have host"),
        ("redeploy land", "land needs the host to which the VMs move"),
        ("redeploy untold host=h1", "a fault 'untold' cannot have host"),
        ("work untold", "a fault of a host step can only have times"),
    ],
)
def test_invalid_fault_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_fault(text)
