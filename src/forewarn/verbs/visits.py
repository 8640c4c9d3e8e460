"""The host steps of `forewarn maintain`, and the verbs of the command `forewarn visit`."""

from forewarn.verbs.hosts import HOSTS
from forewarn.verbs.model import Answer, Argument, Entry, Form, Refusal

_STEP = "STEP[:NAME=VALUE,...]"
_ABOUT = {
    "needed": "Host step that checks, before any notice, whether a host needs the work. "
    "Exit status 70: it does not, and the host is skipped.",
    "enter": "Host step that prepares a host before its VMs are affected.",
    "work": "Host step that does the work, after the VMs have been moved away, paused "
    "(freeze) or stopped (reboot); with the impact none, at once.",
    "answers": "Host step that checks, after `work`, whether the host answers. It runs "
    "every 10 seconds until it has succeeded; VMs that were stopped start after that.",
    "verify": "Host step that checks whether the work succeeded. It runs several times.",
    "exit": "Host step that ends the maintenance, before the host takes VMs again.",
}

STEPS = tuple(
    Argument(
        key=kind,
        form=Form.NAME,
        metavar=_STEP,
        about=about,
        example="flash:version=2.19",
    )
    for kind, about in _ABOUT.items()
)
"""The arguments that name host steps, in the order in which the steps run."""

STEP_REFUSALS = (
    Refusal(
        when="a step is not written as STEP:NAME=VALUE,...",
        sentences=(
            "…: … is not the name of a host step: …",
            "…: … is not an argument: …",
        ),
    ),
    Refusal(
        when="the service has no host steps, or none with this name",
        sentences=("this service has no host steps", "there is no host step …"),
    ),
    Refusal(
        when="an argument of a step is missing, unknown, or does not match its pattern",
        sentences=(
            "host step … needs the argument …",
            "host step … has no argument … (it has: …)",
            "argument … of host step … must match …, not …",
        ),
    ),
    Refusal(
        when="the impact is none, and there is no step work",
        sentences=("maintenance without impact needs a step work",),
    ),
    Refusal(
        when="there is a step answers, and no step work",
        sentences=("a step answers needs a step work, which it follows",),
    ),
    Refusal(
        when="there is a step work, the impact is freeze or reboot, and the driver cannot "
        "do the two halves of it separately",
        sentences=(
            (
                "the driver of this service cannot … and … VMs, which a step work needs with "
                "the impact …"
            ),
        ),
    ),
    Refusal(
        when="another visit works on the host",
        sentences=("host … has visit … (…)",),
    ),
)
"""Refusals of requests with host steps."""

_NO_VISIT = Refusal(
    when="no visit works on the host", sentences=("host … has no open visit",)
)
_NOT_FAILED = Refusal(
    when="the visit has not failed, and its outcome is not unknown",
    sentences=("the visit of host … has not failed: it is …",),
)

VISIT_ENTRIES = (
    Entry(
        name="visit-retry",
        group="visit",
        summary="repeat the failed host step of hosts",
        text="Repeat the step in which the visit of a host failed, or whose outcome is "
        "unknown. After a failed verify, work is repeated first: it may have reported "
        "work that it did not do. The visit then goes on. The host stays cordoned.",
        targets=HOSTS,
        arguments=(
            Argument(
                key="only_verify",
                form=Form.SWITCH,
                about="After a failed verify, do not repeat the step work: it was done "
                "by hand.",
            ),
        ),
        answer=Answer.HOSTS,
        refusals=(
            _NO_VISIT,
            _NOT_FAILED,
            Refusal(
                when="the visit failed in its step enter",
                sentences=(
                    (
                        "the visit of host … failed before its work, and its VMs got no "
                        "further notice"
                    ),
                ),
            ),
            Refusal(
                when="--only-verify is given, and the visit did not fail in verify",
                sentences=("the step verify of host … has not failed",),
            ),
            Refusal(
                when="the step is work, and a VM has come to the host",
                sentences=("VM … is on host …, which must be empty for the work",),
            ),
            Refusal(
                when="the step is work, and the VMs of the host run again after a freeze "
                "or a reboot",
                sentences=(
                    "the VMs of host … run again, so the work cannot be repeated",
                ),
            ),
            Refusal(
                when="the work is done, and the VMs could not run again",
                sentences=(
                    "the VMs of host … could not be resumed or started after the work",
                ),
            ),
        ),
        examples=("forewarn visit retry h1 --reason 'cable replaced'",),
        body={"hosts": ["h1"], "reason": "cable replaced"},
    ),
    Entry(
        name="visit-skip",
        group="visit",
        summary="give up the failed visits of hosts and open the hosts",
        text="End the visit of a host that failed or whose outcome is unknown, without "
        "further steps. Its cordon is removed, so that the host takes VMs again. VMs that "
        "are still paused or stopped, because it is unknown whether the work runs, are "
        "resumed or started first.",
        targets=HOSTS,
        answer=Answer.HOSTS,
        refusals=(
            _NO_VISIT,
            _NOT_FAILED,
            Refusal(
                when="the host belongs to a campaign that has not ended; use `campaign "
                "skip`",
                sentences=("host … belongs to campaign …",),
            ),
        ),
        examples=("forewarn visit skip h1 --reason 'is replaced next week'",),
        body={"hosts": ["h1"], "reason": "is replaced next week"},
    ),
)
"""In the order in which help lists them."""
