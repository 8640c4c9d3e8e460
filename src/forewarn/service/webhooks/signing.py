"""Signatures of the Standard Webhooks scheme: HMAC-SHA256 over ID, time and body.

A receiver that verifies them knows the sender of a message and that it was not changed.
The time protects against replays of old messages.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

PREFIX = "whsec_"

KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
"""192 to 512 bits, as the scheme requires."""

KEYS_MAX = 2
"""Maximum keys: the current one and, during a rotation, the previous one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSecrets:
    """The secrets of a receiver."""

    url: str = field(repr=False)
    """Its URL, which is the secret of a chat."""
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The keys that sign its messages; none: they are not signed."""


def read_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys of a secret file, one per line; raises ValueError.

    The error's message contains nothing of the file.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not 0 < len(lines) <= KEYS_MAX:
        raise ValueError(f"must have a key on one line, or {KEYS_MAX} on two")
    return tuple(map(_key, lines))


def _key(line: str) -> bytes:
    try:
        key = base64.b64decode(line.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        # Omit the cause, which would quote the key.
        raise ValueError(
            f"must have {PREFIX} and {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes in "
            "base64, for example from `openssl rand -base64 32`"
        ) from None
    return key


def signed_headers(
    keys: Sequence[bytes], *, message_id: str, seconds: int, body: bytes
) -> dict[str, str]:
    """Return the signature headers for `body`, sent at `seconds` since 1970."""
    content = f"{message_id}.{seconds}.".encode("ascii") + body
    signatures = (
        base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        for key in keys
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
