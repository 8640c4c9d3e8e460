"""All limits of a running service, each with its unit and its reason."""

QUEUE_MAX = 10_000
"""Maximum requests and approvals queued for the control thread: about a second of work.
It is better to ask further callers to retry than to let them wait."""

APPROVALS_TOGETHER_MAX = 100
"""Maximum POSTs in one transaction: enough to amortize the flush to disk, few enough
that the first of them waits only 10 ms."""

TURN_SECONDS = 0.02
"""Time after which an iteration of the control thread leaves further work to the next
one, for requests and for timers."""

SHARED_TURN_SECONDS = 0.004
"""`TURN_SECONDS` if a caller waits for the thread: at most one or two transactions of a
rollout then delay the response to a request. Timers get as much time as the requests of
the same iteration took, so that neither keeps the other from its work."""

ENABLINGS_TOGETHER_MAX = 50
"""Maximum VMs enabled in one transaction: a restarted fleet sends all first requests at
once."""

LAST_SEEN_TOGETHER_MAX = 200
"""Maximum views whose last-seen times are stored in one transaction: a large fleet's
times are stored in steps, so that approvals can run in between."""

LAST_SEEN_SECONDS = 60.0
"""Minimum time between two writes of last-seen times; disabling uses current ones."""

LAST_SEEN_WAIT_SECONDS = 2.0
"""Maximum time for the event loop to hand over current last-seen times before scopes are
disabled. If it takes longer, disabling waits for the next round of timers."""

HEARTBEAT_SECONDS = 1.0
"""Maximum time between two reads of the clock by the control thread, since the clock
can jump."""

ROUND_SECONDS_MIN = 0.005
"""Minimum time between two checks of timers that stay overdue: a driver that announces
a report but never sends it must not keep a processor busy."""

STUCK_SECONDS = 60.0
"""Time without a heartbeat after which the control thread counts as hung: a long
transaction, such as the first one of a large fleet, takes seconds."""

IDLE_SECONDS = 10.0
"""Time without timers or without a writable store after which the service is not ready.
A backup or a manual query locks the store for less, and an approval can be late by
seconds, not minutes. Without timers, the service does not count as alive after
STUCK_SECONDS. While another program locks the store, it does count as alive, since a
new process could not write either."""

INQUIRIES_AT_ONCE = 16
"""Maximum concurrent driver queries of each kind (probe, observe, abort, abilities): each may be a
program that hangs for its 10 s, and each observation by the command driver can run
`parallel` programs."""

ABILITIES_SECONDS = 10.0
"""Maximum time for which the plan of a campaign waits for the driver's answers about
hosts. Then it uses what is known."""

INQUIRY_SECONDS = 20.0
"""Maximum time of one driver query: longer than the command driver's limit for its
programs, so that only programs that cannot be killed reach it. An abort in the command
driver may wait longer, for a program that is starting."""

READERS = 4
"""Threads that read the store for operators, so that one slow list does not delay the
next read."""

TENANT_READERS = 2
"""Maximum number of these threads that all tenants together can use: one page of a long
history takes half a second, and a tenant can request many pages."""

TENANT_READS_WAITING_MAX = 32
"""Maximum requests of one tenant whose reads wait or run: each takes at most half a
second, so the last one is served after a quarter of a minute. A client that sends one
request after the other has one."""

CHANGES_KEPT = 256
"""Maximum changes queued for one watcher; after more, it must read everything again."""

LISTENERS_RETRY_SECONDS = 30.0
"""Time between attempts to open a VM's listener whose port was in use."""

FLEET_FILE_BYTES_MAX = 512 << 20
"""Maximum bytes of the fleet file that a service reads when it starts: a million VMs on
100,000 hosts take 128 MiB, and the longest names four times as much."""

READ_HERE_CHARACTERS_MAX = 100_000
"""Maximum size of a fleet file that the service reads in its own process: about 800 VMs,
which take 20 ms next to the VMs' requests. Starting a process takes 250 ms."""

PLANNED_HERE_VMS_MAX = 1_000
"""Maximum VMs in the store for comparing a fleet file in the service's own process."""

PLANNING_SECONDS_MAX = 600.0
"""Maximum time for a process to read or compare a fleet file: a million VMs take 40 s of
processor time, and several minutes on a busy machine with a lower priority."""

SIMULATION_SECONDS_MAX = 600.0
"""Maximum time for a process to simulate a campaign: 1,000 hosts with 15,000 VMs take
about one minute of processor time, and the process yields to the service."""

CAMPAIGNS_WAITING_MAX = 8
"""Maximum campaigns that are planned or wait for that, and as many that are simulated: one
of each at a time, for seconds or minutes, and operators are few."""

GRACE_SECONDS = 1.5
"""Maximum time for running requests when the service stops: they take milliseconds."""

THREAD_SECONDS = 10.0
"""Maximum time for the control thread to finish its work when the service stops."""

HELD_LOOKED_AT_MAX = 200
"""Maximum waiting operations whose reasons one scrape looks up: 100 ms of work on a busy
machine."""

HELD_KEPT_SECONDS = 5.0
"""How long the reasons found by one scrape are reused, so that two Prometheus servers
cost as much as one."""

HELD_WAIT_SECONDS = 3.0
"""Maximum time that a scrape waits for these reasons. The read takes milliseconds, but
longer than Prometheus waits for a scrape (10 s) if the database does not answer."""

ADMIN_CONNECTIONS_MAX = 4_096
"""Maximum concurrent connections to the operator API, without those of relays: each stream
and each running request is one. Tenants can have 500 streams and operators 100."""

ADMIN_TLS_CONNECTIONS_MAX = 1_024
"""Maximum concurrent connections to the operator API with TLS, without those of relays:
all together reserve 40 % of `API_MEMORY_BYTES_MAX`. This is still more than the maximum
of 600 streams."""

ADMIN_TLS_BYTES = 320 << 10
"""Memory that a TLS connection reserves, 256 KiB of it for the event loop's buffer. It
uses an eighth of that."""

RELAY_CONNECTIONS_MAX = 4_000
"""Maximum concurrent connections of relays, beside the others, so that neither takes the
places of the other: a stream and a request for each of 2,000 relays
(`admin.limits.ALL_RELAY_STREAMS_MAX`). With TLS they use 160 MiB."""

RELAY_CONNECTIONS_OF_HOST_MAX = 8
"""Maximum of these for the relay of one host, so that a stolen token takes no places of
other hosts: a relay has three, and some whose end the service has not noticed yet.
Further ones count as connections of operators and tenants."""

ADMIN_HANDSHAKES_MAX = 256
"""Maximum concurrent TLS handshakes: each takes milliseconds, unless the client stalls.
This is a quarter of the connections, so that stalled clients leave capacity to others."""

ADMIN_HANDSHAKES_PER_SOURCE_MAX = 64
"""Maximum concurrent TLS handshakes from one address: a browser has six, a proxy for
many people a few dozen. One source can block at most a quarter of all handshakes."""

ADMIN_RETRY_SECONDS = 1
"""Retry-After for clients that are rejected because too many connections are open."""

ADMIN_REFUSED_LOG_SECONDS = 60.0
"""Minimum time between two log lines about rejected connections: there may be thousands
per second."""

ADMIN_FILES_SHARE = 4
"""The operator API's share of the open files, as a divisor, if it runs in the same
process as the VMs' endpoint."""

FILES_RESERVED = 96
"""Open files that connections cannot use: the store's readers and writer (12), the
driver's programs (16 at once with 3 pipes each), its observers
(`programs.PROGRAMS_AT_ONCE_MAX`), a planner, and a margin."""

FILES_MAX = 1 << 20
"""Assumed limit of open files if the system sets none."""

API_MEMORY_BYTES_MAX = 768 << 20
"""Maximum private memory of the operator API's process: 80 MiB when idle, plus several
copies of a 64 MiB fleet file (bytes, text and message). Beyond it, a request fails. With
TLS, the process may also reserve what `RELAY_CONNECTIONS_MAX` connections do."""

API_NICENESS = 5
"""Niceness of the operator API: if it competes with the service for one processor, it
still gets a quarter."""

API_OOM_SCORE = 500
"""OOM score adjustment: if memory runs out, the kernel kills the operator API before the
service."""

API_QUESTIONS_MAX = 512
"""Maximum running calls from the operator API's process; further calls wait there."""

API_FLEET_TURN_SECONDS = 30.0
"""Maximum time that a fleet file waits for earlier files: small ones take a few tens of
milliseconds, and after a large one the caller can retry."""

API_FLEETS_WAITING_MAX = 16
"""Maximum waiting fleet files, at most 512 KiB each except for one: operators are few."""

API_TEXT_CHARACTERS_MAX = 10_000
"""Maximum length of a name or reason from the operator API's process: ten times the
longest valid one."""

API_HEALTH_SECONDS = 2.0
"""Maximum time of the service's health report; after it, the API reports the service as
not responding."""

API_START_SECONDS = 120.0
"""Maximum time of the first start of the operator API's process: usually 0.5 s. On a
machine with busy processors it takes longer than `API_SILENT_SECONDS`, because its priority
is lower than that of the service. The limit doubles with each start that exceeds it: an
overloaded machine would otherwise end every start too early."""

API_START_SECONDS_MAX = 960.0
"""Maximum of that limit: a process that has not started in 16 minutes hangs."""

API_READY_SECONDS = 280.0
"""Maximum time in which the service waits for that process at its own start, with a second
attempt. The unit of systemd waits 5 minutes for the whole start."""

API_RESTART_SECONDS_MIN = 0.1
API_RESTART_SECONDS_MAX = 10.0
"""First and longest pause before the operator API's process is restarted; it doubles each
time."""

API_STEADY_SECONDS = 60.0
"""After a process has run for this time, the next pause starts at the minimum again."""

API_CHANGES_SECONDS = 0.05
"""Time between two messages to the operator API's process about changed operations: one
message contains all changes in between. A message per batch of approvals would cost a
tenth of the processor time of the approvals."""

RELAY_NEWS_KEPT = 10_000
"""Maximum names of hosts and views that wait for the operator API; with more, it reads
those of all connected relays again."""

API_PING_SECONDS = 5.0
"""Time between two pings of the operator API's process."""

API_SILENT_SECONDS = 30.0
"""Time without a reply to a ping after which a process that has served operators is killed
and restarted. A process that has not served yet has the time of a start."""

API_REACH_SECONDS = 2.0
"""Maximum time for the process to connect to its listener before it answers a ping."""

API_REACH_ITERATIONS = 5
"""Iterations of the event loop after that time, in which the connection can still
arrive: connecting, accepting and its callback take one each."""

API_END_SECONDS = 1.0
"""Maximum time for the process to exit after the grace time of its requests."""

INVENTORY_PAUSE_SECONDS = 0.5
"""Minimum time from a run to the next one of the inventory, even if a run takes longer than
`inventory.every`."""

PASSED_ON_TOGETHER_MAX = 32
"""Maximum requests of VMs that a replica passes on at once, each over a connection of its
own. The leader answers each in a few milliseconds, so thousands a second."""

PASSED_ON_SECONDS = 8.0
"""Timeout of an approval that is passed on, less than the time that a VM waits (10 s)."""

ENABLE_PASSED_ON_SECONDS = 2.0
"""Maximum wait for the leader's answer to a first request. It enables the scope at once, but
can hold its answer for `metadata.first_answer_delay`."""

SERVED_SECONDS = 2.0
"""Maximum wait until the result of a request is served: by a replica that has passed it on,
and after an approval at the leader, by the others. It is usually milliseconds. A durable
approval is answered then in any case."""

REPLICA_LOOK_SECONDS = 0.25
"""Time between two looks of a replica at the others, and at the time until which it may
answer VMs. That time is always seconds ahead."""

CLUSTER_THREADS = 2
"""Threads with which a replica reads the cluster and takes over, so that these wait for no
read of an operator or a VM. It reads one thing at a time, and takes over beside that."""

DATABASE_AGAIN_SECONDS = 1.0
"""Time between two attempts of a replica that starts to reach its database. Each attempt
is one connection."""

CONDITION_SECONDS = 5.0
"""Time between two questions about the standby and the feed, which are for people and for
Prometheus: it scrapes no more often."""

SEEN_SHARE = 8
"""Fraction of `metadata.disable_after`, as a divisor, after which a follower reports to the
leader again which views are in use."""

SEEN_TOLD_TOGETHER_MAX = 4
"""Maximum requests at once with which it does so: they are in no hurry."""
