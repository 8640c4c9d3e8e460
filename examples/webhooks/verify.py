"""The complete check of a webhook's signature, to copy into your program."""

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from email.message import Message

SECONDS_MAX = 300


def is_genuine(secret: str, headers: Mapping[str, str] | Message, body: bytes) -> bool:
    """Return whether `body` was signed with the secret in the last five minutes."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    number, sent = headers["webhook-id"], headers["webhook-timestamp"]
    if abs(time.time() - int(sent)) > SECONDS_MAX:
        return False
    content = f"{number}.{sent}.".encode() + body
    good = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    signatures = headers["webhook-signature"].split()
    return any(hmac.compare_digest(f"v1,{good}", one) for one in signatures)
