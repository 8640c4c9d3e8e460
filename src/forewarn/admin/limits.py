"""How much one caller of the operator API may ask for."""

ORDER_BYTES_MAX = 1 << 20
"""Of an order's body: a thousand names of the greatest length fit."""

FLEET_BYTES_MAX = 64 << 20
"""Of a fleet file: some two hundred thousand VMs."""

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

PACES_MAX = 1_000
"""Tenants whose pace is remembered, before those that are idle are forgotten."""

PENDING_IDS_MAX = 10_000
"""Changed operations that wait for a slow watcher; then it reads all anew."""

KEEP_ALIVE_SECONDS = 15.0
"""Between two signs of life of a silent stream: proxies cut after 30 or more."""

RECHECK_SECONDS = 1.0
"""How long a silent stream may outlive its token: one read for each stream."""

RETRY_SECONDS = 1
"""What a caller is told to wait where the service is busy."""
