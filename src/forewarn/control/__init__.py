"""The platform's decisions: what is planned, allowed, due, and what follows.

`Plane` is the door. Everything here is synchronous: it decides in one
transaction, tells its readers what was committed, then calls the driver.
"""
