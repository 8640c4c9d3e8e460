"""Redaction for tenants: filters for values, and a filtered store reader."""
