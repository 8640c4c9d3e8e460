// The hosts: found by the beginning of a name, and one of them with all that is known of it.

import { html, nothing, repeat } from "../lit.js";
import { get } from "../api.js";
import { all, resource } from "../store.js";
import { address, campaignAddress, empty, errorNote, feed, hostLink, isMain, loaded, loading, mayOrder, moment, pill } from "../parts.js";
import { latest } from "../latest.js";
import { asked, look } from "../query.js";
import * as orders from "../orders.js";
import { capital, count } from "../text.js";
import * as time from "../time.js";

/** Rows that are shown, and hosts that one request reads. */
const ROWS_MAX = 300;
/** VMs that are named above the rows. */
const VMS_MAX = 20;
const HISTORY_LINES = 25;
/** Main changes that are read: several can be one line. */
const HISTORY_READ = 100;

/** The sums of the fleet, and the names of its clusters and racks. */
const overview = resource("/v1/fleet/overview", { topics: ["history", "problems"], pause: 5000 });

/** @param {string} query @returns {Promise<any>} Some hosts, and whatever follows them. */
const some = (query) => get(`/v1/fleet?${query}&limit=${ROWS_MAX}`);

/**
 * @param {string} text
 * @param {any[]} clusters
 * @returns {string[]} The selectors of a cluster and a rack with this name.
 */
function placesOf(text, clusters) {
  const isRack = clusters.some((each) => each.racks.some((/** @type {any} */ rack) => rack[0] === text));
  return [clusters.some((each) => each.cluster === text) ? "cluster" : "", isRack ? "rack" : ""].filter(Boolean);
}

/**
 * The hosts and VMs whose names begin with a text, and the hosts of such a cluster or rack.
 * The service searches, so the work is the same in every fleet.
 * @param {string} text
 * @param {string} zone Without a text: only the hosts of this zone.
 */
async function search(text, zone) {
  const part = encodeURIComponent(text);
  if (!text) {
    const page = await some(`${zone ? `zone=${encodeURIComponent(zone)}&` : ""}after=hosts:`);
    return { hosts: page.hosts, vms: [], more: page.next?.startsWith("hosts:") ?? false };
  }
  const { clusters } = overview.value ?? (await get("/v1/fleet/overview"));
  const places = placesOf(text, clusters);
  /** @type {any[]} */
  const found = (await get(`/v1/search?q=${part}&limit=${VMS_MAX}`)).found;
  const names = found.filter((each) => each.kind === "host").map((each) => each.name);
  const pages = await Promise.all([
    ...(names.includes(text) ? [some(`host=${part}`)] : []),
    ...(names.some((each) => each !== text) ? [some(`after=hosts:${part}`)] : []),
    ...places.map((kind) => some(`${kind}=${part}&after=hosts:`)),
  ]);
  /** @type {Map<string, any>} */
  const hosts = new Map();
  let more = false;
  for (const page of pages) {
    for (const each of page.hosts) if (each.name.startsWith(text) || places.some((kind) => each[kind] === text)) hosts.set(each.name, each);
    more ||= Boolean(page.next?.startsWith("hosts:")) && hosts.has(page.hosts.at(-1)?.name);
  }
  return { hosts: [...hosts.values()], vms: found.filter((each) => each.kind === "vm"), more };
}

const resultOf = (/** @type {string} */ text, /** @type {string} */ zone) => resource(() => search(text, zone), { topics: ["history", "problems"] });

/** What was searched last, and its result. */
let searched = { text: "", zone: "", result: resultOf("", "") };

/** @returns {import("../store.js").Resource} */
function result() {
  const text = asked("q");
  const zone = asked("zone");
  if (searched.text !== text || searched.zone !== zone) searched = { text, zone, result: resultOf(text, zone) };
  return searched.result;
}

/** @type {Map<string, import("../store.js").Resource[]>} */
const known = new Map();

/** @param {string} name Explanation, open work, history and VMs of a host. */
function about(name) {
  let found = known.get(name);
  if (!found) {
    known.clear();
    const host = encodeURIComponent(name);
    found = [
      resource(`/v1/explain/${host}?kind=host`, { pause: 2000 }),
      resource(`/v1/operations?host=${host}&limit=50`, { pause: 2000 }),
      resource(() => latest(`host=${host}`, "60d", HISTORY_READ, isMain), { pause: 5000 }),
      resource(`/v1/fleet?host=${host}`, { topics: ["problems", "history"], pause: 3000 }),
    ];
    known.set(name, found);
  }
  return found;
}

/** The names of the VMs that are down. */
const downVms = () => new Set(all("problems").filter((each) => each.kind === "vm-down").flatMap((each) => each.vms));

/** @param {any} host @param {Set<string>} isDown */
function row(host, isDown) {
  const down = host.vms.filter((/** @type {string} */ each) => isDown.has(each)).length;
  return html`<tr aria-selected=${asked("host") === host.name ? "true" : nothing}><th scope="row" class="mono">${hostLink(host.name)}</th><td data-l="cluster">${host.cluster ?? ""}</td><td data-l="rack">${host.rack ?? ""}</td><td data-l="zone">${host.zone}</td>
    <td>${host.state === "down" ? html`<b class="bad">✕ down</b>` : host.cordons.length ? html`<b class="warn">cordoned</b>` : host.state}</td>
    <td class="num" data-l="VMs">${host.vms.length}${host.capacity >= 0 && host.capacity !== null ? ` of ${host.capacity}` : ""}</td><td class="num" data-l="down">${down ? html`<b class="bad">${down}</b>` : ""}</td></tr>`;
}

/** @param {any} value */
function table({ hosts, vms, more }) {
  const text = asked("q");
  const isDown = downVms();
  if (!hosts.length && !vms.length) return empty(text ? `No name begins with “${text}”` : "There is no host", text ? html`<button class="quiet" @click=${() => look({ q: "" })}>Show all hosts</button>` : "Apply a fleet file.");
  return html`${vms.length ? html`<p class="in soft">VMs: ${vms.map((/** @type {any} */ each, /** @type {number} */ index) => html`${index ? ", " : ""}<a href=${address("hosts", ["q", text], ["host", each.host])}>${each.name}</a> on ${each.host}`)}</p>` : nothing}
    ${hosts.length ? html`<table class="flow"><thead><tr><th>Host</th><th>Cluster</th><th>Rack</th><th>Zone</th><th>State</th><th class="num">VMs</th><th class="num">Down</th></tr></thead><tbody>${repeat(hosts.slice(0, ROWS_MAX), (/** @type {any} */ each) => each.name, (each) => row(each, isDown))}</tbody></table>` : nothing}
    ${more || hosts.length > ROWS_MAX ? html`<p class="in soft">The first ${ROWS_MAX} hosts are shown. Find others by the beginning of their names, or by cluster or rack.</p>` : nothing}`;
}

/** @param {any} operation */
const work = (operation) => html`<div class="in head case"><div class="tell"><b>${capital(operation.kind)}</b> (${operation.impact}) of ${operation.target}: ${pill(operation.state === "Ready" ? "wait" : "run", operation.state)}
  <span class="soft">${operation.started ? html`since ${moment(time.at(operation.started))}` : html`from ${moment(time.at(operation.not_before))}, ${time.until(time.at(operation.not_before))}`} · <span class="mono">${operation.operation}</span></span></div><span class="grow"></span>
  ${mayOrder() && !operation.started ? html`<div class="acts"><button @click=${() => orders.cancel(operation.operation, operation.target)}>Cancel…</button></div>` : nothing}</div>`;

/** @param {string} name */
function side(name) {
  const [explained, operations, past, fleet] = about(name);
  const found = explained?.value;
  const host = fleet?.value?.hosts[0];
  const vms = fleet?.value?.vms ?? [];
  const open = operations?.value?.operations ?? [];
  const campaign = open.find((/** @type {any} */ each) => each.rollout)?.rollout;
  const isCordoned = Boolean(host?.cordons.length);
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
  const sums = overview.value;
  return html`<h1 class="vh">Hosts</h1><div class="two ${host ? "" : "alone"}"><div><section class="card" aria-labelledby="hosts"><header><h2 id="hosts">Hosts</h2>
    <form class="acts" role="search" aria-label="Hosts" @submit=${find}><input type="search" name="q" .value=${asked("q")} placeholder="host, VM, rack, cluster" aria-label="Host, VM, rack or cluster" autocomplete="off"><button class="small">Find</button>${asked("zone") && !asked("q") ? html`<button type="button" class="small" title="Show all zones" @click=${() => look({ zone: "" })}>zone ${asked("zone")} ✕</button>` : nothing}</form>
    <span class="grow"></span>${sums ? html`<span class="soft">${count(sums.hosts, "host")}, ${count(sums.vms, "VM")}</span>` : nothing}</header>${loaded(result(), table)}</section></div>${host ? side(host) : nothing}</div>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => asked("host") || "Hosts",
  view,
  uses: () => [overview, result(), ...(asked("host") ? about(asked("host")) : [])],
};
