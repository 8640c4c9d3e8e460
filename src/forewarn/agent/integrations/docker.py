"""Containers of docker; all that is done with them is in `containers`."""

from __future__ import annotations

from forewarn.agent.integrations.containers import container_kind
from forewarn.agent.integrations.containers.engine import Flavour

FLAVOUR = Flavour(word="docker", statuses=("running", "paused", "restarting"))

KIND = container_kind(FLAVOUR)
"""Containers of docker."""
