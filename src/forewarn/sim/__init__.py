"""Worlds on a turned clock: the whole service in one thread, from one seed."""
