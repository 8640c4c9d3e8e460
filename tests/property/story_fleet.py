"""The fleet of all stories."""

from tests.support.fleets import FleetPlan, HostPlan, ScopePlan, VmPlan

FLEET = FleetPlan(
    hosts=tuple(HostPlan(name=f"h{number}") for number in range(4)),
    scopes=(
        ScopePlan(name="web", tenant="ash", kind="availability-set", terminate="5m"),
        ScopePlan(name="pool", tenant="bay", kind="scale-set", os_image="15m"),
    ),
    vms=(
        VmPlan(name="pool_0", host="h0", scope="pool"),
        VmPlan(name="pool_1", host="h1", scope="pool", domain=1, spot=True),
        VmPlan(name="web_0", host="h0", scope="web"),
        VmPlan(name="web_1", host="h0", scope="web"),
        VmPlan(name="web_2", host="h1", scope="web", domain=1),
    ),
)
