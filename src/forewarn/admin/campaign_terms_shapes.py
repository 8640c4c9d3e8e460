"""Models of the limits of a campaign in responses, as in `shapes`."""

from forewarn.admin.shapes import shape

BudgetsShape = shape(
    "BudgetsShape",
    "The budgets of a campaign, as numbers or percentages.",
    in_flight=str,
    in_flight_hosts=(int, "The budget `in_flight` as a number of hosts."),
    unavailable_hosts=(int | None, "The budget `unavailable` as a number of hosts."),
    unavailable=str | None,
    by=(dict[str, str], "The maximum for each value of a label."),
    tenant_vms=str | None,
    overlap_notice=(int, "Further fault domains of a scope that can be announced."),
)

ToleranceShape = shape(
    "ToleranceShape",
    "The failures that the last stage tolerates; the stages before it tolerate none.",
    failures=(int, "Failed hosts of the last `of_last` hosts; one more halts."),
    of_last=int,
    in_a_row=(int, "Failed hosts in a row; one more halts."),
    vms_down=(int | None, "VMs that can be down after the work; null: any number."),
)
