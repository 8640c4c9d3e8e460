"""Receivers of notifications, one kind in each module."""
