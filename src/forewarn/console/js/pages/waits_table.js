// The table of the tenants that are waited for, as on Now and in a campaign.

import { html, nothing, repeat } from "../lit.js";
import { address, little, mayOrder } from "../parts.js";
import { hold } from "../hold.js";
import { lateTenants } from "../needs.js";
import * as orders from "../orders.js";
import * as time from "../time.js";

/** @param {any} wait */
function agents(wait) {
  const polled = time.at(wait.last_poll);
  if (!wait.enabled)
    return html`<td class="soft" data-l="agents">
      ${wait.last_poll ? "not enabled" : "never polled"}
    </td>`;
  if (Number.isNaN(polled)) return html`<td class="soft">never polled</td>`;
  // The service stores a poll rarely, so an age of some minutes is not silence.
  const isSilent = time.now() - polled > 10 * 60_000;
  return isSilent
    ? html`<td class="warn b">silent for ${time.roughly(time.now() - polled)}</td>`
    : html`<td>polled ${time.ago(polled)}</td>`;
}

/**
 * @param {any} wait
 * @param {boolean} isLate
 * @param {boolean} isShort Without the columns that a campaign has no room for.
 * @param {string} rollout What is approved is of it; empty: of any.
 */
function waitRow(wait, isLate, isShort, rollout) {
  const since = time.at(wait.since);
  const limit = time.at(wait.not_before);
  const over = time.share(since, limit);
  const start = html`${time.when(limit)} · ${time.until(limit)}`;
  const may = mayOrder("approve") && wait.enabled;
  return html`<tr>
    <th scope="row">${wait.tenant}</th>
    <td class="num" data-l="missing">${wait.events}</td>
    ${isShort ? nothing : html`<td class="num" data-l="VMs">${wait.vms}</td>`}
    <td class="num" data-l="hosts">${wait.hosts}</td>
    <td class="nw" data-l="since">${time.ago(since)}</td>
    <td class="nw" data-l="starts at latest">
      ${isLate ? html`<b class="warn">${start}</b>` : start}${
        isShort ? nothing : little(over, isLate ? "s-held" : "s-noticed")
      }
    </td>
    ${isShort ? nothing : agents(wait)}
    <td class="nw wide">
      <a
        class="quiet small btn"
        href=${address("waits", ["tenant", wait.tenant], ["rollout", rollout])}
        >Which?</a
      >
      ${
        may
          ? html`<button class="small" @click=${() => orders.approveFor(wait.tenant, rollout)}>
              ${isShort ? "Approve…" : `Approve for ${wait.tenant}…`}
            </button>`
          : isShort && !wait.enabled
            ? html`<span class="soft">does not listen</span>`
            : nothing
      }
    </td>
  </tr>`;
}

/** @param {any[]} found @param {boolean} [isShort] @param {string} [rollout] */
export function waitsTable(found, isShort = false, rollout = "") {
  const late = lateTenants();
  return html`<table class="flow">
    <thead>
      <tr>
        <th>Tenant</th>
        <th class="num">Missing</th>
        ${isShort ? nothing : html`<th class="num">VMs</th>`}
        <th class="num">Hosts</th>
        <th>Since</th>
        <th>Starts at latest</th>
        ${isShort ? nothing : html`<th>Agents</th>`}
        <th><span class="vh">Act</span></th>
      </tr>
    </thead>
    <tbody id="wait-rows">
      ${repeat(
        hold("wait-rows", found, (each) => each.tenant, rollout).rows,
        (each) => each.tenant,
        (each) => waitRow(each, late.has(each.tenant), isShort, rollout),
      )}
    </tbody>
  </table>`;
}
