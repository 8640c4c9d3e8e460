"""Reports of the current state and the history, as JSON and values; nothing here
decides.

A report contains only records that its reader returns
(`control.redaction.tenant_reader`).
"""
