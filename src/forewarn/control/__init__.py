"""The platform's decisions: what is planned, allowed, due, and what follows.

`Plane` is the door. Each package depends only on those below it:

    plane         the door: one method per input, one transaction per decision
    driver_link   what the driver is told, asked and reports
    requests      what operators, VMs and fleet files ask for: admit, approve, cancel
    execution     from the start of an operation to its end
    redaction     what a tenant may know
    transactions  one transaction: its writes, what it publishes, what follows
    rules         what must hold before an operation starts

Everything here is synchronous: it decides in one transaction, tells its readers what
was committed, then calls the driver.
"""
