"""Limits for one caller of the operator API."""

ORDER_BYTES_MAX = 512 << 10
"""Maximum bytes of an operator's request: 1,000 names of the maximum length, 256
characters, take half of it."""

TENANT_BYTES_MAX = 64 << 10
"""Maximum bytes of a tenant's request: more than 1,000 names of usual length. The most
hostile JSON of this length takes 4 ms to parse."""

BODY_VALUES_MAX = 10_000
"""Maximum values in the JSON of a request: 1,000 names and some more. Ten thousand
empty lists take 1 ms to parse."""

FLEET_BODY_SECONDS = 300.0
"""Maximum seconds to receive a large fleet file: 64 MiB at 2 Mbit/s."""

FLEET_BYTES_MAX = 64 << 20
"""Maximum bytes of a fleet file in a request: some 500,000 VMs."""

FLEET_TURN_SECONDS = 30.0
"""Maximum seconds for which a large fleet file waits until the previous file is
applied: shorter than clients wait for a response, which is a minute or more."""

FLEET_STEP_BYTES = 64 << 10
"""Bytes of a large fleet file that are parsed in one step, which takes some
milliseconds if each character is escaped."""

KEY_CHARACTERS_MAX = 255
"""Maximum characters of an Idempotency-Key: a UUID has 36."""

NAME_CHARACTERS_MAX = 256
"""Maximum characters of a name in a request; names in the fleet file are shorter."""

TEXT_CHARACTERS_MAX = 1_000
"""Maximum characters of a reason or a description: some sentences. Each VM reads the
description."""

PAGE_OBJECTS = 200
"""Default objects of one response."""

PAGE_OBJECTS_MAX = 1_000
"""Maximum objects of one response: a tenth of a second's work."""

SCAN_ROWS_MAX = 10_000
"""Maximum rows that one response searches: a rare match can be on a later page."""

GATHERED_HOSTS_MAX = 1_000
"""Maximum hosts of a rollout whose history is found through its operations: some 10,000
entries, whose keys take 25 ms to gather."""

PLACE_HOSTS_MAX = 256
"""Maximum hosts of a place whose VMs are read through the index of places: some racks, or
a cluster. The VMs of a larger place are found by reading all of them in pages."""

TENANT_SCAN_READS_MAX = 4_000
"""Rows that one response of a tenant reads from the store before its search ends, also
those that only decide what the tenant sees: a quarter of a second."""

WATCHERS_MAX = 100
"""Maximum streams of operators: people and their dashboards, not a fleet of VMs. The
streams of tenants do not count, so that no tenant can exclude operators."""

TENANT_WATCHERS_MAX = 10
"""Maximum streams of one tenant: a dashboard, a bot, some people."""

ALL_TENANTS_WATCHERS_MAX = 500
"""Maximum streams of all tenants: a limit of the machine, which tenants share, and far
more than a few of them may have."""

TENANT_ORDERS_AT_ONCE = 60
"""Maximum burst of a tenant's POSTs: a script's loop over its VMs."""

TENANT_ORDERS_PER_SECOND = 1.0
"""Maximum rate of a tenant's POSTs per second. A request and its end write some 20 KB
to the store, so this limits the amount that a tenant can write."""

RELAY_REQUESTS_AT_ONCE = 400
"""Maximum burst of the requests of one relay: two for each VM of a host with 200."""

RELAY_REQUESTS_PER_SECOND = 50.0
"""Maximum rate of the requests of one relay per second: each can have the approvals of
many VMs."""

RELAY_STREAMS_MAX = 4
"""Maximum streams of the relay of one host: one, and those whose end the service has not
noticed yet."""

ALL_RELAY_STREAMS_MAX = 2_000
"""Maximum streams of all relays: half of the connections of the operator API."""

RELAY_LINGER_SECONDS = 300.0
"""Seconds for which the service knows what a relay that has left has missed."""

RELAY_SILENT_SECONDS = 5.0
"""Seconds after which planned work waits for a relay that is away: longer than a relay
usually needs to connect again, and much shorter than a notice."""

RELAY_UNCONFIRMED_SECONDS = 30.0
"""Seconds after which planned work waits for a relay that has not confirmed a change. It
confirms within ten seconds, so that the relays of all hosts do not confirm at once."""

RELAY_UNHEARD_SECONDS = 75.0
"""Seconds without a request after which a connected relay counts as silent. It sends one
every 30 seconds, so two of them were lost."""

RELAY_RETURN_SECONDS = 20.0
"""Seconds in which all relays return after a restart: twice as long as 1,000 need."""

RELAY_LOOK_SECONDS = 1.0
"""Seconds between two looks for relays that became silent or have returned."""

RELAY_LINKS_TOGETHER = 200
"""Maximum relays of one report to the service: a transaction of some 10 ms."""

RELAY_UNCONFIRMED_MAX = 64
"""Maximum unconfirmed changes of a relay that are kept one by one: as many as it gets in
some seconds. Later ones count as old as the last of them."""

RELAY_GONE_MAX = 1_000
"""Maximum names of objects that have left a host, kept for relays that reconnect."""

RELAY_HOSTS_TOGETHER = 20
"""Maximum hosts of one read of the store for relays."""

RELAY_VMS_TOGETHER = 1_000
"""VMs after which such a read leaves further hosts to the next one: some 40 ms. Requests
of other relays wait this long at most, even if all relays come at once."""

RELAY_VIEWS_TOGETHER = 500
"""Views that one read of the store has."""

RELAY_APPROVALS_MAX = 64
"""Maximum approvals in one request of a relay, which share a transaction."""

RELAY_ENABLINGS_MAX = 64
"""Maximum VMs of a relay's request that enables them: as many as approvals, since each of
them can be a scope of its own."""

RELAY_EVENTS_MAX = 1_000
"""Maximum events of one approval, as at the metadata endpoint."""

RELAY_VMS_MAX = 2_000
"""Maximum VMs whose last requests one message of a relay has: more than a host has."""

TENANT_TEXT_CHARACTERS_MAX = 200
"""Maximum characters of a tenant's reason or description: a sentence or two, stored
several times."""

TENANT_REFUSED_MAX = 10
"""Maximum number of refused requests that count against a tenant's rate. They count, so
that they are not free. A tenant that waits as long as `Retry-After` says is served."""

TENANT_READS_AT_ONCE = 300
"""Maximum burst of a tenant's GETs: a script that reads each VM."""

TENANT_READS_PER_SECOND = 20.0
"""Maximum rate of a tenant's GETs per second. Most take some milliseconds, a tenth of a
processor. Long ones run one at a time (`service.limits.TENANT_READERS`)."""

FAILURES_AT_ONCE = 20
"""Maximum burst of invalid tokens from one source: a script with an old token, a few
times."""

FAILURE_SECONDS = 5.0
"""Seconds between two invalid tokens of one source that get 401 instead of 429, after
the burst."""

PAGES_AT_ONCE = 60
"""Maximum burst of requests for the page and its description from one source, without a
token: a page load has two."""

PAGE_SECONDS = 0.2
"""Seconds between two of these requests, after the burst. The description has 140 KB, so
one source gets at most 0.7 MB a second."""

FILES_AT_ONCE = 1_000
"""Maximum burst of requests for files of the console from one source: some 25 people
behind one address open it, with 40 files each. Their browsers then have the files."""

FILE_SECONDS = 0.02
"""Seconds between two of these requests, after the burst. Most files have some KB, so one
source gets at most some 0.5 MB a second."""

SOURCES_MAX = 10_000
"""Maximum sources whose failures are remembered, some 200 bytes each; the oldest are
removed."""

KNOWN_TOKENS_MAX = 2_000
"""Maximum valid tokens that are remembered by their digests: as many as can exist, and
more."""

ENDED_SESSIONS_MAX = 10_000
"""Maximum ended sessions that one process remembers, in addition to the stored ones: far
more than people log out in 12 hours."""

REFUSED_LOG_SECONDS = 60.0
"""Seconds after which a refused source is logged again."""

REFUSED_LOG_LINES = 10
"""Maximum lines about refused requests in that time: an attacker must not fill the
disk."""

PACES_MAX = 1_000
"""Number of tenants with a remembered rate above which idle ones are removed."""

HUB_CHARACTERS = 16 << 20
"""Maximum characters of the latest changes that are kept for operators: some 10,000
objects. A viewer that is further behind reads everything again."""

TENANT_HUB_CHARACTERS = 512 << 10
"""Maximum characters of the latest changes that are kept for one tenant: some 300
objects, since many tenants may watch at once."""

HUB_LINGER_SECONDS = 60.0
"""Seconds for which changes are kept after the last viewer has left. The viewer can then
continue after a restart of its proxy or a change of its network."""

POSITION_DIGITS_MAX = 18
"""Maximum digits of the number in a message's ID."""

PROBLEMS_PAUSE = 20
"""Minimum pause between two searches for problems, in multiples of the time that one
search takes: at most a twentieth of a core."""

SHARED_PAUSE = 5
"""Time for which a slow answer is given again, in multiples of the time that it took: at
most a sixth of a core. The fleet of 100,000 hosts takes a second, 400 hosts 20 ms."""

SHARED_SECONDS_MAX = 5.0
"""Maximum age of an answer in seconds when it is given again, however long it took: a page
that asks each two seconds is at most this late."""

SHARED_ANSWERS_MAX = 100
"""Maximum answers that are kept to be given again: one for each console at the same time.
The oldest are forgotten, such as those for a time that only one caller asks for."""

CAMPAIGN_MEMORIES_MAX = 3
"""Maximum large campaigns whose hosts are kept between reads, some 40 MB each for 100,000
hosts. Few campaigns are that large, and those that are looked at least lately are read
again."""

SHARED_FROM_SECONDS = 0.1
"""Duration of a read from which its answer is kept: shorter ones are read each time. With
50 viewers, a longer one would take a core."""

FOUND = 10
"""Default objects of each kind that a search returns: a list below a field."""

FOUND_MAX = 50
"""Maximum objects of each kind that a search returns: some milliseconds' work."""

TIMELINE_ROWS = 100
"""Default hosts of one page of a campaign: two racks, and some 30 ms of work."""

TIMELINE_ROWS_MAX = 200
"""Maximum hosts of one page of a campaign: more than a screen shows, and each can take a
millisecond."""

REASONS_PAUSE = 5
"""Minimum pause between two pages of open operations that are read again for their
reasons, in multiples of the time that one page takes: at most a sixth of a core."""

UPCOMING_PAUSE = 20
"""Minimum pause between two pages of a tenant's coming work that are compared with the
previous ones, in multiples of the time that one page takes: at most a twentieth of a
core."""

KEEP_ALIVE_SECONDS = 5.0
"""Seconds between two comments of a stream without changes. A page that shows the age
of its data treats 12 s without a message as a failure, and proxies close after 30 s or
more."""

RECHECK_SECONDS = 1.0
"""Seconds between two checks of a stream: a stream can outlive its token for this long.
A change without an operation is seen this late at most. All viewers with the same
rights share one read."""

USES_TOGETHER_MAX = 1_000
"""Maximum tokens whose use one transaction stores, in 0.02 s."""

USES_MAX = 5_000
"""Maximum tokens whose use waits to be stored; others are stored with a later request.
All relays can come back together, an hour after their last use was stored."""

USES_PAUSE_SECONDS = 1.0
"""Seconds between two transactions that store the uses of tokens: the second one has all
uses in between."""

RETRY_SECONDS = 1
"""`Retry-After` in seconds if the service is busy."""
