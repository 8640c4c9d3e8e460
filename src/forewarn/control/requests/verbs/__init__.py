"""The verbs: what an operator or user may order, and when it is refused.

Each is one transaction. What it shows is table 5.9; what it refuses is said in
`docs/reference/verbs-and-refusals.md`, with the sentences that are raised here.
"""

from forewarn.control.requests.verbs.cancelling import cancel
from forewarn.control.requests.verbs.hosts import maintain, predict_failure
from forewarn.control.requests.verbs.order import TARGETS_MAX, OrderOptions
from forewarn.control.requests.verbs.vms import evict, renew_image, restart, terminate

__all__ = [
    "TARGETS_MAX",
    "OrderOptions",
    "cancel",
    "evict",
    "maintain",
    "predict_failure",
    "renew_image",
    "restart",
    "terminate",
]
