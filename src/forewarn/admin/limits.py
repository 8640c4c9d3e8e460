"""How much one caller of the operator API may ask for."""

ORDER_BYTES_MAX = 512 << 10
"""Bytes of the body of an operator's order: a thousand names of the greatest length,
256 characters, take half of it."""

TENANT_BYTES_MAX = 64 << 10
"""Bytes of the body of a tenant's request: more than a thousand names of usual length.
To read the most hostile JSON of this length takes 4 ms."""

BODY_VALUES_MAX = 10_000
"""Values in the JSON of an order: a thousand names and some more. To read ten thousand
empty lists takes 1 ms."""

FLEET_BODY_SECONDS = 300.0
"""Seconds in which a large fleet file must have come: 64 MiB over 2 Mbit/s."""

FLEET_BYTES_MAX = 64 << 20
"""Of a fleet file: some two hundred thousand VMs."""

FLEET_TURN_SECONDS = 30.0
"""For a large fleet file to wait until the one before it is received and applied:
shorter than clients wait for an answer, which is a minute or more."""

FLEET_STEP_BYTES = 64 << 10
"""Bytes of a large fleet file that are read in one step, which takes some
milliseconds where each character is escaped."""

KEY_CHARACTERS_MAX = 255
"""Of an Idempotency-Key: a UUID has 36."""

NAME_CHARACTERS_MAX = 256
"""Of a host's or a VM's name in a request; the fleet file has shorter ones."""

TEXT_CHARACTERS_MAX = 1_000
"""Of a reason or a description: some sentences. Each VM reads the latter."""

PAGE_OBJECTS = 200
"""Objects of one answer, unless the caller says otherwise."""

PAGE_OBJECTS_MAX = 1_000
"""Objects of one answer: a tenth of a second's work."""

SCAN_ROWS_MAX = 10_000
"""Rows that one answer looks through: a rare match may lie in a later page."""

WATCHERS_MAX = 100
"""Streams of operators at once: them and their dashboards, not a fleet of VMs. No
tenant's stream counts among them, so that no tenant can keep operators out."""

TENANT_WATCHERS_MAX = 10
"""Streams of one tenant at once: a dashboard, a bot, some people."""

ALL_TENANTS_WATCHERS_MAX = 500
"""Streams of all tenants together, each of which reads once a second: a machine's
bound, which tenants share, and far beyond what a few of them may have."""

TENANT_ORDERS_AT_ONCE = 60
"""Orders of one tenant that are taken at once: a script's loop over its VMs."""

TENANT_ORDERS_PER_SECOND = 1.0
"""Orders of one tenant in the long run. An order and its end leave some 20 KB in the
store, so this is the bound of what a tenant can have written."""

TENANT_TEXT_CHARACTERS_MAX = 200
"""Of a tenant's reason or description: a sentence or two, kept several times over."""

TENANT_REFUSED_MAX = 10
"""Orders by which refused requests may put a tenant further behind: they count, so that
they are not free, but one that waits as long as it was told is served."""

TENANT_READS_AT_ONCE = 300
"""Questions of one tenant that are answered at once: a script's look at each VM."""

TENANT_READS_PER_SECOND = 20.0
"""Questions of one tenant in the long run: each is some milliseconds of a processor,
so that one tenant cannot keep more than a tenth of it."""

FAILURES_AT_ONCE = 20
"""Wrong tokens of one source that are judged at once: a script that was not told of a
new token, a few times."""

FAILURE_SECONDS = 5.0
"""Between two wrong tokens of one source that are judged in the long run."""

SOURCES_MAX = 10_000
"""Sources whose failures are remembered, some 200 bytes each; the oldest are forgotten."""

KNOWN_TOKENS_MAX = 2_000
"""Good tokens that are known by their digests: as many as there may be, and more."""

REFUSED_LOG_SECONDS = 60.0
"""After which a source that is refused is logged again."""

REFUSED_LOG_LINES = 10
"""Lines about refused requests in that time: an attacker must not fill the disk."""

PACES_MAX = 1_000
"""Tenants whose pace is remembered, before those that are idle are forgotten."""

HUB_CHARACTERS = 16 << 20
"""Maximum characters of the latest changes that are kept for operators: some 10,000
objects. A viewer that is further behind reads everything again."""

TENANT_HUB_CHARACTERS = 512 << 10
"""The same for one tenant: some 300 objects, since many tenants may watch at once."""

HUB_LINGER_SECONDS = 60.0
"""Seconds for which changes are kept after the last viewer has left, so that it can
continue after a restart of its proxy or a change of its network."""

POSITION_DIGITS_MAX = 18
"""Maximum digits of the number in a message's ID."""

PROBLEMS_PAUSE = 20
"""Minimum pause between two searches for problems, in multiples of the time that one
search takes: at most a twentieth of a core."""

KEEP_ALIVE_SECONDS = 5.0
"""Between two signs of life of a silent stream: a page that shows the age of what it
shows takes 12 s of silence for a failure, and proxies cut after 30 or more."""

RECHECK_SECONDS = 1.0
"""Maximum seconds for which a stream outlives its token, and for which a change without
an operation is not seen: one read for all viewers with the same rights."""

USES_MAX = 100
"""Tokens whose use is being stored at once; others are stored with a later request."""

RETRY_SECONDS = 1
"""What a caller is told to wait where the service is busy."""
