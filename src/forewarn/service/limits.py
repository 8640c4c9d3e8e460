"""Every limit of a running service, with its unit and its reason."""

QUEUE_MAX = 10_000
"""Orders and approvals that wait for the control thread: about a second's work.
Whoever comes later is better told to come again than made to wait."""

APPROVALS_TOGETHER_MAX = 100
"""POSTs of one transaction: enough that the disk's flush no longer counts, few
enough that the first of them waits for ten milliseconds only."""

ENABLINGS_TOGETHER_MAX = 50
"""VMs enabled in one transaction: a restarted fleet asks all at once."""

SIGHTINGS_TOGETHER_MAX = 200
"""Views whose last request is stored in one transaction: a large fleet's are
stored in steps, so that approvals come in between."""

SIGHTINGS_SECONDS = 60.0
"""At most this often sightings are stored; a disabling looks at the latest."""

SIGHTINGS_WAIT_SECONDS = 2.0
"""For the loop to hand over the latest sightings before a disabling: if it takes
longer, the disabling waits for the next round."""

HEARTBEAT_SECONDS = 1.0
"""At least this often the control thread looks at the clock, which may jump."""

ROUND_SECONDS_MIN = 0.005
"""Between two looks at timers that are overdue and do not go: a driver that
promises a report and does not bring it must not cost a processor."""

STUCK_SECONDS = 60.0
"""Without a sign of life of the control thread: a long transaction, such as a
large fleet's first, takes seconds."""

IDLE_SECONDS = 10.0
"""Without a round of timers, or with a store that takes no write, until the service
is not ready: a backup or a look by hand holds the store for less, and VMs have
seconds, not minutes, in which an approval may be late. Without a round of timers
it does not count as alive after STUCK_SECONDS; while another program holds the store
it does, since a new process could not write either."""

READERS = 4
"""Threads that read the store for operators, so that one slow list does not hold
up the next question."""

CHANGES_KEPT = 256
"""Changes that a watcher may be behind before it must read everything anew."""

LISTENERS_RETRY_SECONDS = 30.0
"""Between attempts at a VM's listener whose port was taken."""

READ_HERE_CHARACTERS_MAX = 100_000
"""Of a fleet file that the service reads by itself, some 800 VMs: that takes it 20 ms
beside the VMs' requests, and a process of its own would take a quarter of a second
to begin."""

PLANNED_HERE_VMS_MAX = 1_000
"""VMs that are there, for a fleet file to be compared with them in the service."""

PLANNING_SECONDS_MAX = 120.0
"""For a process to read a fleet file, or to compare it: ten times what the largest
takes on a busy machine."""

GRACE_SECONDS = 1.5
"""For requests under way when the service stops: they take milliseconds."""

THREAD_SECONDS = 10.0
"""For the control thread to finish what it has begun when the service stops."""

HELD_LOOKED_AT_MAX = 200
"""Waiting operations whose reasons one scrape looks for: a tenth of a second's
work, beside whatever else the machine does."""

HELD_KEPT_SECONDS = 5.0
"""How long a scrape's findings serve the next: two Prometheus servers cost as
much as one."""
