"""The verbs of the command `forewarn blackout`: when no planned work begins."""

from forewarn.verbs.model import Answer, Argument, Entry, Form, Kind, Refusal, Targets

_BLACKOUT = Targets(
    kind=Kind.BLACKOUT,
    key="name",
    metavar="NAME",
    about="Name of the blackout, such as year-end.",
    is_list=False,
)

_UNEXPLAINED = Refusal(
    when="no reason is given",
    sentences=("a blackout needs a reason",),
)

BLACKOUT_ENTRIES = (
    Entry(
        name="blackout-set",
        group="blackout",
        summary="set a time in which no planned work begins",
        text="Set a blackout of the service, or change the one with this name: a time in "
        "which no maintenance, OS upgrade or reimage is announced or started, in the whole "
        "fleet or in a part of it. Announced hosts of rollouts and campaigns that would "
        "start in it are withdrawn without impact, and announced again after it with a "
        "full notice. Work that has started continues, and so do emergency work, failures "
        "and requests of users.",
        targets=_BLACKOUT,
        arguments=(
            Argument(
                key="time",
                form=Form.TEXT,
                option="time",
                metavar="TIME",
                about="When it is, by the wall clock: 'FROM UNTIL [TIMEZONE]', such as "
                "'2026-12-24T18:00 2027-01-02T06:00 Europe/Berlin', or, if it recurs, "
                "'[DAYS] START LENGTH [TIMEZONE]', such as 'mon,fri 09:00 8h "
                "Europe/Berlin'. Default time zone: UTC.",
                is_needed=True,
                example="2026-12-24T18:00 2027-01-02T06:00 Europe/Berlin",
            ),
            Argument(
                key="where",
                form=Form.NAMES,
                option="--where",
                metavar="PLACE",
                about="Only hosts at this place: zone=1, cluster=a, rack=r7, pool=p1, or "
                "a label such as model=r7525. Places of one kind are alternatives; a host "
                "must match each kind. Default: the whole fleet.",
            ),
        ),
        answer=Answer.BLACKOUTS,
        refusals=(
            _UNEXPLAINED,
            Refusal(
                when="the name or the time is not valid",
                sentences=(
                    "… is not a name of a blackout",
                    "… is not a time of a blackout: …",
                ),
            ),
            Refusal(
                when="its time has passed",
                sentences=("blackout … would have ended already",),
            ),
            Refusal(
                when="a place is not valid, has no host, or too many are named",
                sentences=(
                    "… is not a place",
                    "no host stands at …",
                    "a blackout has at most … places, not …",
                ),
            ),
            Refusal(
                when="it would leave no time for planned work",
                sentences=("with blackout …, no planned work could ever begin",),
            ),
            Refusal(
                when="there are 50 blackouts",
                sentences=("the service has at most … blackouts",),
            ),
        ),
        examples=(
            "forewarn blackout set year-end '2026-12-24T18:00 2027-01-02' --reason xmas",
            "forewarn blackout set trading 'mon,fri 08:00 10h Europe/London' --reason open",
            "forewarn blackout set move '2026-12-01 2026-12-03' --where rack=r7 --reason dc",
        ),
        body={
            "name": "year-end",
            "time": "2026-12-24T18:00 2027-01-02T06:00 Europe/Berlin",
            "reason": "change freeze",
        },
    ),
    Entry(
        name="blackout-remove",
        group="blackout",
        summary="remove a blackout of the service",
        text="Remove a blackout of the service. Work that it held is checked at once.",
        targets=_BLACKOUT,
        answer=Answer.BLACKOUTS,
        refusals=(
            _UNEXPLAINED,
            Refusal(
                when="there is no such blackout",
                sentences=("there is no blackout …",),
            ),
        ),
        examples=("forewarn blackout remove year-end --reason 'the freeze is over'",),
        body={"name": "year-end", "reason": "the freeze is over"},
    ),
)
"""In the order in which help lists them."""
