"""Webhooks: the outbox's messages, posted to receivers, signed, until they are taken.

Each receiver has a task of its own on the event loop: messages go in order, one
at a time, and a receiver that fails holds up nobody else. Delivery is at least
once. A crash between an answer and the deletion of what was told has it sent
again with the same id.

This package knows of events only the JSON that control wrote. It writes nothing
but the deletion of messages, through the plane's thread.
"""
