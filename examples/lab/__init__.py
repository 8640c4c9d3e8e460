"""Hosts and guests for the lab and the tests: real ones, on one machine.

A host is a network namespace, and a guest is a QEMU with a kernel and a small system of
Debian packages, without hardware virtualization.
"""
