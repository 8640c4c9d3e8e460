"""Which cordons campaigns have left behind: any operator can open these hosts.

A campaign cordons a failed host until its work is done. The cordon stays if the campaign
skips the host or ends, because the host may need a repair.
"""

from forewarn.fleet.model import Cordon, Host
from forewarn.protocol.actors import campaign_actor, is_campaign
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def is_left_behind(reader: Reader, host: Host, cordon: Cordon) -> bool:
    """Return whether the cordon is of a campaign that has ended or has skipped the host."""
    if not is_campaign(cordon.by):
        return False
    for campaign in every(reader, kinds.CAMPAIGNS_OPEN):
        if campaign_actor(campaign.name).is_same_as(cordon.by):
            if host.name in campaign.failed_hosts:
                return False
            works = every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name)
            return all(operation.request != campaign.request for operation in works)
    return True
