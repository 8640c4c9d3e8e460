"""The arguments that several verbs share."""

from forewarn.verbs.model import Argument, Form

REASON = Argument(
    key="reason",
    form=Form.TEXT,
    about="Reason, stored in the history of the request.",
)
NOT_BEFORE = Argument(
    key="not_before",
    form=Form.MOMENT,
    about="NotBefore: the operation starts then, or earlier if all its events are "
    "approved. RFC 3339, such as 2026-11-21T10:00:00+02:00, or +30m from now. It must "
    "give the minimum notice.",
    typed="A time without an offset, such as 2026-11-21T10:00, is local time.",
    example="+30m",
)
DURATION = Argument(
    key="duration",
    form=Form.SECONDS,
    metavar="DURATION",
    about="DurationInSeconds of the events: 5s, or whole seconds without a unit; -1 "
    "means unknown.",
    example="5s",
)
DESCRIPTION = Argument(
    key="description",
    form=Form.TEXT,
    about="Description of the events, instead of the usual one.",
)
SHARED = (NOT_BEFORE, DURATION, DESCRIPTION)
"""Arguments of every verb that announces events."""
