"""Requests of VMs that one process passes on to another: from a relay, or from a replica
that follows, to the service that decides.
"""
