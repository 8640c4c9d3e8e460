-- Let a plan of a campaign read the VMs in the order of their hosts from the index alone.
DROP INDEX vms_by_host;
CREATE INDEX vms_by_host ON vms (
    host, name, scope, tenant, fault_domain, vcpu, memory, state
) WHERE state != 'deleted';

-- Find the scopes that can have several VMs among those of single VMs.
CREATE INDEX scopes_explicit ON scopes (name) WHERE NOT implied;
