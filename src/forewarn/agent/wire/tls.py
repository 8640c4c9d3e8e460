"""What the agent asks of TLS: authorities that it trusts, and version 1.2 or newer.

Import it where TLS begins: it takes six megabytes, which an agent without TLS saves.
"""

from __future__ import annotations

import ssl

from forewarn.settings import files


def trusting(*, ca_file: str = "", ca_text: str = "") -> ssl.SSLContext:
    """Return a context that trusts these authorities, or else the system's.

    Raises OSError and ValueError.
    """
    if ca_file:
        files.refuse_unreadable(ca_file)
    context = ssl.create_default_context(cafile=ca_file or None, cadata=ca_text or None)
    # Python 3.9 would take older ones; a system may demand a newer one.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    return context
