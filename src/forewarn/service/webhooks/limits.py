"""Every limit of webhooks, with its unit and its reason."""

from forewarn.instants import HOUR

PENDING_MAX = 10_000
"""Messages that wait for one receiver: about 15 MiB of the store's file, and hours
of a large rollout. The oldest are given up for those that follow."""

GIVE_UP_AFTER = 24 * HOUR
"""Age at which a message is given up: longer than a night, and far longer than the
notices it tells of."""

PAGE_MESSAGES = 50
"""Messages read, and deleted, at once: so many may come twice after a crash, and
so short is the transaction that deletes them."""

FORGET_SECONDS = 1.0
"""For at most so long what was told waits for its deletion while more is told."""

RETRY_SECONDS_MIN = 1.0
RETRY_SECONDS_MAX = 300.0
"""The first and the longest pause after a failure; it doubles in between. Longer
would keep a receiver that is back waiting, shorter would hammer one that is not."""

RETRY_AFTER_SECONDS_MAX = 3600.0
"""Of a Retry-After that is followed: one far ahead is a mistake more often than a
wish, and messages grow old."""

ANSWER_BYTES_MAX = 64 * 1024
"""Of an answer that is read, so that the connection can be used again; with more
to come it is closed. What the answer says is of no interest."""

TRIM_MESSAGES = 500
"""Messages given up when there are too many: room for those that follow, with one
line of the history and not one for each."""

END_SECONDS = 1.0
"""For the last deletions when the service stops: without them a few messages come
twice, which is better than a slow stop."""

ERROR_CHARACTERS_MAX = 200
"""Of an error that is kept for `forewarn webhook list`."""
