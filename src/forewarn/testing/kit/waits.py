"""Default timeouts of waits, in seconds.

Timeouts are in real time, because the program under test runs in real time, even if the
clock of the world is virtual.
"""

APPROVAL_SECONDS = 10.0
"""Wait for an approval: a client that polls every second has had ten chances."""

STATUS_SECONDS = 10.0
"""Wait for a status that follows automatically, such as Started after an approval."""

REQUEST_SECONDS = 10.0
"""Wait for a request: as long as a slow program under test needs to start."""

EVENT_SECONDS = 10.0
"""Wait for an event of a scenario or a recording."""

REPLAY_SECONDS = 10.0
"""Wait for the first request of a replay, and additional wait for its end."""

CLIENT_SECONDS = 60.0
"""Wait for the first poll of a client before a scenario begins without one. It is the
same as `forewarn simulate --wait`."""

SCENARIO_SECONDS = 600.0
"""Wait for a whole scenario, in addition to its length without approvals. Its own
expectations have much shorter limits."""
