// The events that wait for an approval of a tenant, for the page that lists them and for the order
// that approves them.

import { get, list } from "./api.js";

/**
 * @param {string} tenant
 * @param {string} rollout Only events of its operations; empty: of all.
 * @returns {Promise<{open: any[], more: boolean, wait: any}>} The events, whether there are more
 *   than were read, and what the service says about the tenant's agents, if it waits for them.
 */
export async function missingOf(tenant, rollout) {
  const query = new URLSearchParams({ tenant, ...(rollout ? { rollout } : {}) });
  const [{ items, more }, { waits }] = await Promise.all([
    list(`/v1/events?${query}&state=Scheduled&limit=1000`, "events"),
    get(`/v1/waits?${query}`),
  ]);
  return { open: items.filter((each) => !each.approved_by), more, wait: waits[0] };
}
