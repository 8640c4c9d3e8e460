"""Durable memory: one port, and what stands behind it."""
