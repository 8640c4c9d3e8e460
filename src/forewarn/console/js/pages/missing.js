// The approvals that a tenant has not given: which events, on which VMs and hosts, until when.

import { html, nothing, repeat } from "../lit.js";
import { list } from "../api.js";
import { historyAddress } from "../search.js";
import { empty, hostLink, loaded, mayOrder, moment } from "../parts.js";
import { hold } from "../hold.js";
import { missingOf } from "../missing_events.js";
import { lateTenants } from "../needs.js";
import * as orders from "../orders.js";
import { asked } from "../query.js";
import { changed, latest, resource } from "../store.js";
import { count, ending, number, some } from "../text.js";
import * as time from "../time.js";

/** Rows that are shown; an order can be about all of them. */
const ROWS_MAX = 500;
/** VMs of an event that are named. */
const VMS_MAX = 3;

/** @param {string} tenant @param {string} rollout Only events of its operations; empty: all. */
async function read(tenant, rollout) {
  const query = new URLSearchParams({ tenant, ...(rollout ? { rollout } : {}) });
  const [{ open, more, wait }, operations] = await Promise.all([
    missingOf(tenant, rollout),
    list(`/v1/operations?${query}&limit=1000`, "operations"),
  ]);
  const hosts = new Map(operations.items.map((each) => [each.operation, each.host]));
  /** @type {Map<string, any>} */
  const agents = new Map(
    (wait?.preparing ?? []).map((/** @type {any} */ each) => [each.scope, each]),
  );
  const rows = open
    .map((each) => ({
      ...each,
      host: hosts.get(each.operation) ?? "",
      agent: agents.get(each.scope),
    }))
    .sort((one, other) => time.at(one.NotBefore) - time.at(other.NotBefore));
  return { open: rows, more, wait };
}

/** Whose approvals are shown, and those of them that are chosen, by the ID of the event. */
const shownOf = latest((/** @type {string} */ tenant, /** @type {string} */ rollout) => ({
  result: resource(() => read(tenant, rollout), { topics: ["history", "problems"], pause: 4000 }),
  chosen: new Set(),
}));
const shown = () => shownOf(asked("tenant"), asked("rollout"));

/** @param {string} id */
function toggle(id) {
  const { chosen } = shown();
  if (!chosen.delete(id)) chosen.add(id);
  changed({ now: true });
}

/** @param {any} event @param {any} wait */
function agent(event, wait) {
  if (!wait?.enabled) return html`<td class="soft" data-l="agent">not enabled</td>`;
  const polled = event.agent?.last_poll;
  return html`<td data-l="agent">
    ${
      polled
        ? html`polled ${time.ago(time.at(polled))}`
        : html`<span class="soft">has not seen it</span>`
    }
  </td>`;
}

/**
 * @param {any} event
 * @param {any} wait
 * @param {boolean} isLate
 * @param {Set<string> | null} chosen The IDs of those that are chosen; null: none can be.
 */
function row(event, wait, isLate, chosen) {
  const limit = time.at(event.NotBefore);
  const start = html`${time.when(limit)} · ${time.until(limit)}`;
  const name = some(event.vms, VMS_MAX);
  return html`<tr>
    ${
      chosen
        ? html`<td>
            <input
              type="checkbox"
              aria-label="${event.EventType} of ${name}"
              .checked=${chosen.has(event.EventId)}
              @change=${() => toggle(event.EventId)}
            />
          </td>`
        : nothing
    }
    <th scope="row" class="mono">${name}</th>
    <td data-l="scope">${event.scope}</td>
    <td class="mono nw" data-l="host">${event.host ? hostLink(event.host) : ""}</td>
    <td>${event.EventType}</td>
    <td class="nw" data-l="since">${moment(time.at(event.created))}</td>
    <td class="nw" data-l="starts at latest">
      ${isLate ? html`<b class="warn">${start}</b>` : start}
    </td>
    ${agent(event, wait)}
    <td class="nw">
      <a class="mono" title=${event.EventId} href=${historyAddress("event", event.EventId)}
        >${ending(event.EventId)}</a
      >
    </td>
  </tr>`;
}

/** @param {any} value */
function table({ open, more, wait }) {
  const tenant = asked("tenant");
  const { chosen } = shown();
  const ids = new Set(open.map((/** @type {any} */ each) => each.EventId));
  for (const each of chosen) if (!ids.has(each)) chosen.delete(each);
  if (!open.length) return empty(`No approval of ${tenant} is missing`, "");
  // An event of a scope that has never asked for events cannot be approved for it.
  const may = mayOrder("approve") && Boolean(wait?.enabled);
  const rows = hold("missing-rows", open, (each) => each.EventId, tenant).rows.slice(0, ROWS_MAX);
  const isLate = lateTenants().has(tenant);
  const isAll = chosen.size === open.length;
  const mine = open.filter((/** @type {any} */ each) => chosen.has(each.EventId));
  const toggleAll = () => {
    shown().chosen = isAll ? new Set() : ids;
    changed({ now: true });
  };
  const approve = () =>
    orders.approve(
      mine.map((/** @type {any} */ each) => each.EventId),
      tenant,
      new Set(mine.flatMap((/** @type {any} */ each) => each.vms)).size,
    );
  return html`<table class="flow">
      <thead>
        <tr>
          ${
            may
              ? html`<th>
                  <input
                    type="checkbox"
                    aria-label="All ${open.length}"
                    .checked=${isAll}
                    @change=${toggleAll}
                  />
                </th>`
              : nothing
          }
          <th>VM</th>
          <th>Scope</th>
          <th>Host</th>
          <th>Event</th>
          <th>Since</th>
          <th>Starts at latest</th>
          <th>Agent</th>
          <th>ID</th>
        </tr>
      </thead>
      <tbody id="missing-rows">
        ${repeat(
          rows,
          (each) => each.EventId,
          (each) => row(each, wait, isLate, may ? chosen : null),
        )}
      </tbody>
    </table>
    ${
      more || open.length > rows.length
        ? html`<p class="in soft">The first ${number(rows.length)} are shown.</p>`
        : nothing
    }
    ${
      mine.length
        ? html`<div class="bulk">
            <b>${count(mine.length, "event")}</b>
            <button @click=${approve}>Approve ${count(mine.length, "event")}…</button>
          </div>`
        : nothing
    }`;
}

function view() {
  const tenant = asked("tenant");
  const { result } = shown();
  const open = result.value?.open;
  return html`<h1 class="vh">Missing approvals of ${tenant}</h1>
    <section class="card" aria-labelledby="missing">
      <header>
        <h2 id="missing">
          ${
            open
              ? count(open.length, "missing approval") + ` of ${tenant}`
              : `Missing approvals of ${tenant}`
          }
        </h2>
        <span class="grow"></span><span class="soft">the earliest start first</span>
      </header>
      ${loaded(result, table)}
    </section>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => `missing approvals of ${asked("tenant")}`,
  view,
  uses: () => [shown().result],
};
