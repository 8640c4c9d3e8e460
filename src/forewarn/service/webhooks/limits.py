"""All limits of webhooks, each with its unit and its reason."""

from forewarn.instants import HOUR

PENDING_MAX = 10_000
"""Maximum pending messages of one receiver: about 15 MiB in the store's file, or hours
of a large rollout. Beyond it, the oldest are dropped."""

GIVE_UP_AFTER = 24 * HOUR
"""Age at which a message is dropped: longer than a night, and far longer than the notice
of its event."""

PAGE_MESSAGES = 50
"""Messages read and deleted at once: up to this number can be sent twice after a crash.
The transaction that deletes them stays short."""

FORGET_SECONDS = 1.0
"""Maximum time from delivery to deletion of a message while others are sent."""

RETRY_SECONDS_MIN = 1.0
RETRY_SECONDS_MAX = 300.0
"""Minimum and maximum pause after a failure. The pause doubles with each failure in a
row. A longer pause would delay messages after a recovery; a shorter one would overload
a failing receiver."""

RETRY_AFTER_SECONDS_MAX = 3600.0
"""Maximum Retry-After that is respected: a longer one is probably a mistake, and
messages would become too old."""

ANSWER_BYTES_MAX = 64 * 1024
"""Maximum bytes read of a response body, so that the connection can be reused; for a
longer body, it is closed. The body is ignored."""

TRIM_MESSAGES = 500
"""Messages dropped at once if there are too many, with one history entry for all."""

END_SECONDS = 1.0
"""Maximum time for the last deletions when the service stops. Without them, a few
messages are sent twice, which is better than a slow stop."""

ERROR_CHARACTERS_MAX = 200
"""Maximum length of an error kept for `forewarn webhook list`."""
