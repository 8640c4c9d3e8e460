"""The decisions of the service.

`Plane` is the entry point. Each package depends only on those below it:

    plane         entry point: one method per input, one transaction per decision
    driver_link   calls to the driver, questions to it, and its reports
    requests      requests of operators, VMs and fleet files: admit, approve, cancel
    execution     from the start of an operation to its end
    redaction     what a tenant may see
    transactions  one transaction: its writes, publication and effects
    rules         conditions for the start of an operation

Everything here is synchronous: it decides in one transaction, publishes the committed
changes, and then calls the driver.
"""
