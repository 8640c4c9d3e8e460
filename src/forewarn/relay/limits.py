"""The limits of a relay."""

FIRST_PAUSE_SECONDS = 1.0
"""Maximum of the random pause before the first attempt to connect again. After a restart
of the service, the relays of all hosts come back spread over this time."""

PAUSE_SECONDS_MAX = 5.0
"""Maximum of the random pause while the service is unreachable: so long, all relays together
need to notice its return. 1,000 of them then try 400 times a second."""

LOST_PAUSE_SECONDS_MAX = 30.0
"""Maximum of the random pause after a service whose store has lost what was served. It
stays so until an operator acts, and each attempt costs the service all VMs of the host."""

SEEN_SECONDS = 30.0
"""Time between two reports of the last requests of VMs, or confirmations if there were
none. The shortest useful `disable_after` of a service is minutes, and a relay that sends
nothing for 75 seconds counts as silent."""

CONFIRM_SPREAD_SECONDS = 10.0
"""Maximum of the random pause before a confirmation. The relays of all hosts confirm a
change of all of them spread over this time, and changes that follow soon are confirmed
together. The service waits three times as long before a relay counts as silent."""

CONFIRM_SECONDS = 1.0
"""Pause before a confirmation is sent again that the service did not take."""

CHECK_SECONDS = 1.0
"""Time between two checks whether the service was silent for too long."""

GRACE_SECONDS = 2.0
"""Time for the current requests when the relay stops."""

TOKEN_CHARACTERS_MAX = 200
"""Maximum characters of a token; those of the service have about 50."""

CONNECTIONS_MAX = 20_000
"""Maximum open connections of VMs: a hundred for each of 200 VMs."""

GARBAGE_OBJECTS = 20_000
"""New objects, minus freed ones, after which Python collects garbage, as in the service."""
