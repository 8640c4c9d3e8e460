"""Every limit of a running service, with its unit and its reason."""

QUEUE_MAX = 10_000
"""Orders and approvals that wait for the control thread: about a second's work.
Whoever comes later is better told to come again than made to wait."""

APPROVALS_TOGETHER_MAX = 100
"""POSTs of one transaction: enough that the disk's flush no longer counts, few
enough that the first of them waits for ten milliseconds only."""

TURN_SECONDS = 0.02
"""After so much of a turn of the control thread, what is left waits for the next turn.
With the longest step beside it, a turn stays below 50 ms."""

SHARED_TURN_SECONDS = 0.004
"""The same where somebody waits for the thread: a transaction or two of a rollout come
between an order and its answer, and not all that a turn has time for."""

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

INQUIRIES_AT_ONCE = 16
"""Questions of each kind (probes, looks at VMs, stops) that are out at once: each may
be a program that hangs for its 10 s, and each look of the command driver is up to
`parallel` programs."""

INQUIRY_SECONDS = 20.0
"""For a driver to answer a question, from when it is asked: longer than the command
driver gives its own programs, so that only what cannot be ended meets it. A stop of the
command driver may wait longer, for a program that is being started."""

READERS = 4
"""Threads that read the store for operators, so that one slow list does not hold
up the next question."""

TENANT_READERS = 2
"""Threads of these that all tenants have together: a page of a long history takes half
a second, and a tenant may ask for many."""

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

ADMIN_CONNECTIONS_MAX = 4_096
"""Connections to the operator API at once: each stream and each request under way is
one. Tenants may have 500 streams and operators 100."""

ADMIN_TLS_CONNECTIONS_MAX = 1_024
"""Connections to the operator API at once where it speaks TLS: each takes up to 0.3 MB,
256 KiB of it the loop's buffer, so together 40 % of `API_MEMORY_BYTES_MAX`. It is still
more than the 600 streams that there may be."""

ADMIN_HANDSHAKES_MAX = 256
"""Handshakes of TLS at once: each takes milliseconds, unless the client stalls. A
quarter of the connections, so that those who stall leave room to those who work."""

ADMIN_HANDSHAKES_PER_SOURCE_MAX = 64
"""Handshakes at once from one address: a browser has six, a proxy for many people some
tens. One source can keep the others from no more than a quarter of all."""

ADMIN_RETRY_SECONDS = 1
"""What a client is told to wait where too many connections are open."""

ADMIN_REFUSED_LOG_SECONDS = 60.0
"""Between two log lines about refused connections: there may be thousands a second."""

ADMIN_FILES_SHARE = 4
"""Where the operator API runs in the same process as the VMs' endpoint, it may have
one part in so many of the open files."""

FILES_RESERVED = 96
"""Open files that no connection may take: the store's readers and writer (12), the
driver's programs (3 pipes each, 16 at once), those of its looks
(`programs.PROGRAMS_AT_ONCE_MAX`), a planner, and some to spare."""

FILES_MAX = 1 << 20
"""What is counted with where the system sets no limit of open files."""

API_MEMORY_BYTES_MAX = 768 << 20
"""Private memory of the operator API's process: 80 MiB by itself, and a fleet file of
64 MiB several times over, as bytes, text and message. Beyond it a request fails."""

API_NICENESS = 5
"""Behind the service where both want one processor: it still gets a quarter of it."""

API_OOM_SCORE = 500
"""So much sooner the kernel ends the operator API than the service."""

API_QUESTIONS_MAX = 512
"""Questions of the operator API that are under way; more wait in its process."""

API_FLEET_TURN_SECONDS = 30.0
"""For a fleet file to wait until those before it are applied: small ones take some tens
of milliseconds, and who waits for the largest may as well ask again."""

API_FLEETS_WAITING_MAX = 16
"""Fleet files that wait for their turn, 512 KiB each but for one: operators are few."""

API_TEXT_CHARACTERS_MAX = 10_000
"""Of a name or a reason that the operator API's process sends: ten times the longest."""

API_HEALTH_SECONDS = 2.0
"""For the service to tell how it is: beyond it, the API answers that it does not."""

API_START_SECONDS = 60.0
"""For the operator API's process to begin: half a second, on a busy machine many."""

API_RESTART_SECONDS_MIN = 0.1
API_RESTART_SECONDS_MAX = 10.0
"""Before the operator API's process is started again: doubled each time."""

API_STEADY_SECONDS = 60.0
"""After so long a life the next start of the process is at once again."""

API_CHANGES_SECONDS = 0.05
"""Between two messages to the operator API's process about changed operations: what
changes meanwhile goes together. A message for each batch of approvals cost as much
processor time as a tenth of the approvals."""

API_PING_SECONDS = 5.0
"""Between two signs of life that the service asks of the process."""

API_SILENT_SECONDS = 30.0
"""Without a sign of life for so long the process is killed and started again."""

API_REACH_SECONDS = 2.0
"""For a connection of the process to its own listener, before a ping is answered."""

API_END_SECONDS = 1.0
"""For the process to end after its requests' grace."""
