"""forewarn: Azure Scheduled Events for any fleet of virtual machines.

The package is layered; see `ARCHITECTURE.md`. This module imports nothing, so that the
agent stays small.
"""

__version__ = "0.1.0"
