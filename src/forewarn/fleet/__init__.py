"""The fleet as values: hosts, VMs, tenants, scopes, views and where VMs fit.

Pure, like `protocol`: texts and values in, values out. Reading a file from a
disk, or rows from a store, is somebody else's work.
"""
