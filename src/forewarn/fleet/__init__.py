"""The fleet as values: hosts, VMs, tenants, scopes, views and placement.

Pure, like `protocol`: text and values in, values out. Other packages read files and
stores.
"""
