"""Signatures as in the Standard Webhooks scheme: HMAC-SHA256 over id, time and body.

A receiver that verifies them knows who sent a message, that nobody changed it,
and, by the time, that it is not an old one sent again by somebody else.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

PREFIX = "whsec_"

KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
"""192 to 512 bits, as the scheme wants it."""

KEYS_MAX = 2
"""The key in use and, while it is exchanged, the one before."""


def read_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys of a secret file, one a line; raises ValueError.

    The error's sentence has nothing of the file in it.
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
        # Raised without its cause, which would quote the key.
        raise ValueError(
            f"must have {PREFIX} and {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes in "
            "base64, as `openssl rand -base64 32` makes them"
        ) from None
    return key


def signed_headers(
    keys: Sequence[bytes], *, message_id: str, seconds: int, body: bytes
) -> dict[str, str]:
    """Return the headers that tell who sent `body`, at `seconds` since 1970."""
    content = f"{message_id}.{seconds}.".encode("ascii") + body
    signatures = (
        base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        for key in keys
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }
