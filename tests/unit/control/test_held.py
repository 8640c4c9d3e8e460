"""What held an operation stands in the trail: when it changes, to whom it concerns."""

from tests.unit.admin.desk import FLEET

SHARED = FLEET.replace(
    'name = "db"\ntenant = "bank"\nkind = "scale-set"',
    'name = "db"\ntenant = "bank"\nkind = "availability-set"',
).replace(
    'name = "db_1"\nhost = "h2"\nscope = "db"',
    'name = "db_1"\nhost = "h2"\nscope = "db"\nfault_domain = 1',
)
"""web_0 and db_0 are on h1 in fault domain 0, web_1 and db_1 on h2 in the other."""

WEB = "scope web has fault domain 0 down because vm web_0 failed"
DB = "scope db has fault domain 0 down because vm db_0 failed"
SHOP = "another fault domain of scope web is down"
PLATFORM = "the platform holds it back for now"
