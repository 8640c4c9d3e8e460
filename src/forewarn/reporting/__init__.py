"""Reading: what is, what was and why, as JSON and values; nothing here decides.

Whose reader a report is given says what it may show (`control.redaction.sight`).
"""
