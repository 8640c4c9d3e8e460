"""forewarn: notice of maintenance for virtual machines, as Azure gives it.

The package is layered; `ARCHITECTURE.md` has the map. Nothing is imported
here, so that the part that runs inside a VM stays small.
"""

__version__ = "0.1.0"
