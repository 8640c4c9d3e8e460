// The hosts: found by a part of a name, and one of them with all that is known of it.

import { html, nothing, repeat } from "../lit.js";
import { get, list } from "../api.js";
import { resource } from "../store.js";
import { address, campaignAddress, empty, errorNote, feed, hostLink, isMain, loaded, loading, mayOrder, moment, pill } from "../parts.js";
import { asked, look } from "../query.js";
import * as orders from "../orders.js";
import { capital, count, number } from "../text.js";
import * as time from "../time.js";

/** Rows that are shown. */
const ROWS_MAX = 300;
/** Pages of the fleet that are read to search it. */
const PAGES_MAX = 40;
const HISTORY_LINES = 25;

/** Hosts and VMs of the fleet, with what is searched. */
const fleet = resource(async () => {
  /** @type {any[]} */
  const hosts = [];
  /** @type {any[]} */
  const vms = [];
  let after = "";
  for (let page = 0; page < PAGES_MAX; page++) {
    const body = await get(`/v1/fleet?limit=1000${after && `&after=${encodeURIComponent(after)}`}`);
    hosts.push(...body.hosts);
    vms.push(...body.vms);
    after = body.next ?? "";
    if (!after) break;
  }
  return { hosts, vms, isWhole: !after };
}, { topics: ["problems"], pause: 15_000 });

/** @type {Map<string, import("../store.js").Resource[]>} */
const known = new Map();

/** @param {string} name Explanation, open work and history of a host. */
function about(name) {
  let found = known.get(name);
  if (!found) {
    known.clear();
    const host = encodeURIComponent(name);
    found = [
      resource(`/v1/explain/${host}?kind=host`, { pause: 2000 }),
      resource(`/v1/operations?host=${host}&limit=50`, { pause: 2000 }),
      resource(async () => (await list(`/v1/history?host=${host}&since=60d&limit=1000`, "entries", 20)).items.reverse(), { pause: 3000 }),
    ];
    known.set(name, found);
  }
  return found;
}

/** @param {any} host @param {string} text */
const matches = (host, text) =>
  [host.name, host.zone, host.cluster, host.rack, host.pool].some((each) => each === text) || host.name.includes(text) || host.rack?.includes(text);

/** @param {any} host @param {Map<string, any[]>} vms */
function row(host, vms) {
  const there = vms.get(host.name) ?? [];
  const down = there.filter((each) => each.state === "down").length;
  return html`<tr aria-selected=${asked("host") === host.name ? "true" : nothing}><th scope="row" class="mono">${hostLink(host.name)}</th><td data-l="cluster">${host.cluster ?? ""}</td><td data-l="rack">${host.rack ?? ""}</td><td data-l="zone">${host.zone}</td>
    <td>${host.state === "down" ? html`<b class="bad">✕ down</b>` : host.cordons?.length || host.cordoned ? html`<b class="warn">cordoned</b>` : host.state}</td>
    <td class="num" data-l="VMs">${there.length}${host.capacity >= 0 && host.capacity !== null ? ` of ${host.capacity}` : ""}</td><td class="num" data-l="down">${down ? html`<b class="bad">${down}</b>` : ""}</td></tr>`;
}

/** @param {any} value */
function table({ hosts, vms, isWhole }) {
  const text = asked("q");
  /** @type {Map<string, any[]>} */
  const byHost = new Map();
  for (const vm of vms) byHost.set(vm.host, [...(byHost.get(vm.host) ?? []), vm]);
  const found = text ? vms.filter((/** @type {any} */ each) => each.name.includes(text)).slice(0, 20) : [];
  const shown = hosts.filter((/** @type {any} */ each) => !text || matches(each, text) || (byHost.get(each.name) ?? []).some((vm) => vm.name === text));
  if (!shown.length && !found.length) return empty(`No host matches “${text}”`, html`${count(hosts.length, "host")}. <button class="quiet" @click=${() => look({ q: "" })}>Clear the search</button>`);
  return html`${found.length && shown.length !== 1 ? html`<p class="in soft">VMs: ${found.map((/** @type {any} */ each, /** @type {number} */ index) => html`${index ? ", " : ""}<a href=${address("hosts", ["q", text], ["host", each.host])}>${each.name}</a> on ${each.host}`)}</p>` : nothing}
    <table class="flow"><thead><tr><th>Host</th><th>Cluster</th><th>Rack</th><th>Zone</th><th>State</th><th class="num">VMs</th><th class="num">Down</th></tr></thead><tbody>${repeat(shown.slice(0, ROWS_MAX), (/** @type {any} */ each) => each.name, (each) => row(each, byHost))}</tbody></table>
    ${shown.length > ROWS_MAX || !isWhole ? html`<p class="in soft">${number(shown.length)} hosts match${isWhole ? "" : " so far"}; the first ${ROWS_MAX} are shown.</p>` : nothing}`;
}

/** @param {any} operation */
const work = (operation) => html`<div class="in head case"><div class="tell"><b>${capital(operation.kind)}</b> (${operation.impact}) of ${operation.target}: ${pill(operation.state === "Ready" ? "wait" : "run", operation.state)}
  <span class="soft">${operation.started ? html`since ${moment(time.at(operation.started))}` : html`from ${moment(time.at(operation.not_before))}, ${time.until(time.at(operation.not_before))}`} · <span class="mono">${operation.operation}</span></span></div><span class="grow"></span>
  ${mayOrder() && !operation.started ? html`<div class="acts"><button @click=${() => orders.cancel(operation.operation, operation.target)}>Cancel…</button></div>` : nothing}</div>`;

/** @param {string} name */
function side(name) {
  const [explained, operations, past] = about(name);
  const found = explained?.value;
  const host = fleet.value?.hosts.find((/** @type {any} */ each) => each.name === name);
  const vms = (fleet.value?.vms ?? []).filter((/** @type {any} */ each) => each.host === name);
  const open = operations?.value?.operations ?? [];
  const campaign = open.find((/** @type {any} */ each) => each.rollout)?.rollout;
  const isCordoned = Boolean(host?.cordons?.length || host?.cordoned);
  return html`<aside class="card drawer" aria-labelledby="hh" tabindex="-1"><header><div><h2 id="hh">${name}</h2><span class="soft">${found ? found.state : ""}${host ? ` · zone ${host.zone}${host.rack ? ` · rack ${host.rack}` : ""}` : ""} · ${count(vms.length, "VM")}</span></div><span class="grow"></span><button class="quiet" aria-label="Close" @click=${() => look({ host: "" })}>✕</button></header>
    ${explained?.error ? html`<div class="in">${errorNote(explained.error)}</div>` : found ? html`<div class="in"><p>${found.standing || found.what}</p>${found.blockers.length ? html`<h3>Why it is waiting</h3><ul class="why">${found.blockers.map((/** @type {any} */ each) => html`<li>${each.text}</li>`)}</ul>` : nothing}</div>` : loading}
    ${open.map(work)}${campaign ? html`<div class="in"><a href=${`${campaignAddress(campaign)}?host=${encodeURIComponent(name)}`}>Show it in the timeline</a></div>` : nothing}
    ${vms.length ? html`<div class="in"><h3>VMs</h3><table class="tight"><tbody>${vms.map((/** @type {any} */ each) => html`<tr><th class="mono" scope="row">${each.name}</th><td class="soft">${each.tenant ?? ""}</td><td class="soft">${each.scope}</td><td>${each.state === "down" ? html`<b class="bad">✕ down</b>` : each.state}</td></tr>`)}</tbody></table></div>` : nothing}
    <div class="in"><h3>Lately</h3>${past?.value ? feed(past.value.filter(isMain), HISTORY_LINES) : nothing}<a href=${address("history", ["host", name], ["since", "60d"])}>All of its history</a></div>
    ${mayOrder() && host ? html`<div class="in acts">${isCordoned ? html`<button @click=${() => orders.cordon("open", [name])}>Open…</button>` : html`<button @click=${() => orders.cordon("cordon", [name])}>Cordon…</button>`}
      ${host.state === "down" ? html`<button @click=${() => orders.restore([name])}>Mark restored…</button>` : nothing}</div>` : nothing}</aside>`;
}

/** @param {Event} event */
function find(event) {
  event.preventDefault();
  look({ q: String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("q") ?? "").trim() });
}

function view() {
  const host = asked("host");
  return html`<h1 class="vh">Hosts</h1><div class="two ${host ? "" : "alone"}"><div><section class="card" aria-labelledby="hosts"><header><h2 id="hosts">Hosts</h2>
    <form class="acts" role="search" aria-label="Hosts" @submit=${find}><input type="search" name="q" .value=${asked("q")} placeholder="host, VM, rack, cluster" aria-label="Host, VM, rack or cluster" autocomplete="off"><button class="small">Find</button></form>
    <span class="grow"></span>${fleet.value ? html`<span class="soft">${count(fleet.value.hosts.length, "host")}, ${count(fleet.value.vms.length, "VM")}</span>` : nothing}</header>${loaded(fleet, table)}</section></div>${host ? side(host) : nothing}</div>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => asked("host") || "Hosts",
  view,
  uses: () => (asked("host") ? [fleet, ...about(asked("host"))] : [fleet]),
};
