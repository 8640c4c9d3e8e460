"""How long a test waits for something in a world, unless it says otherwise.

A wait is bounded in real time, since the program under test runs in real time,
whatever the clock of the world does.
"""

APPROVAL_SECONDS = 10.0
"""For an approval: a client that polls each second has had ten chances."""

STATUS_SECONDS = 10.0
"""For a status that comes by itself, such as Started after an approval."""

REQUEST_SECONDS = 10.0
"""For a request: the slowest start of a program under test."""

EVENT_SECONDS = 10.0
"""For an event that comes by itself, in a scenario or a recording."""

REPLAY_SECONDS = 10.0
"""For the first request of a replay, and for its end beside what it takes."""

CLIENT_SECONDS = 60.0
"""For a client to ask for its events, before a scenario begins without one: the same as
`forewarn simulate --wait`."""

SCENARIO_SECONDS = 600.0
"""For a whole scenario, beside what it takes where nobody approves anything: its own
expectations are bounded much sooner."""
