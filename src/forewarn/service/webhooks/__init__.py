"""Webhooks: post the messages of the outbox to receivers, signed.

Each receiver has a separate task on the event loop. Its messages are sent in order, one
at a time, and a failing receiver does not delay the others. Delivery is at least once:
after a crash between a response and the deletion of the message, the message is sent
again with the same ID.

This package sees only the JSON of events that control wrote. It changes the store only
by deleting messages, through the control thread.
"""
