// The four lists of Now: down, unknown, waiting for approval, held.

import { html, nothing, repeat } from "../lit.js";
import { changed, one, resource } from "../store.js";
import { all } from "../store.js";
import { address, campaignAddress, hostLink, little, mayOrder, moment, pill } from "../parts.js";
import { hold } from "../hold.js";
import * as orders from "../orders.js";
import { capital, count, number, some } from "../text.js";
import * as time from "../time.js";

/** @typedef {{vm: string, tenant: string, host: string, since: number, text: string, problem: any}} DownVm */

// Down

/** Selected VMs. @type {Set<string>} */
const chosen = new Set();

/** VMs of an operation by name: their tenants. @type {Map<string, import("../store.js").Resource>} */
const details = new Map();

/** The tenant of a VM, from the events of its operation. @param {any} problem @param {string} vm */
function tenantOf(problem, vm) {
  if (problem.tenants.length < 2 || !problem.operation) return problem.tenants[0] ?? "";
  let detail = details.get(problem.operation);
  if (!detail) {
    detail = resource(`/v1/events?host=${encodeURIComponent(problem.hosts[0] ?? "")}&all=true&limit=1000`, { topics: [] });
    details.set(problem.operation, detail);
  }
  const event = detail.value?.events.find((/** @type {any} */ each) => each.vms.includes(vm));
  return event?.tenant ?? "";
}

/** The lists that name the tenants of VMs. */
export const lookups = () => [...details.values()];

/** @param {any[]} problems @returns {DownVm[]} */
const downVms = (problems) =>
  problems.filter((each) => each.kind === "vm-down").flatMap((problem) => (problem.vms.length ? problem.vms : [""]).map((/** @type {string} */ vm) => ({
    vm, problem, tenant: vm && tenantOf(problem, vm), host: problem.hosts[0] ?? "", since: time.at(problem.since),
    text: vm && problem.target === problem.hosts[0] && problem.vms.length > 1 ? "its host is down" : problem.text,
  })));

/** @param {string} vm */
function toggle(vm) {
  if (!chosen.delete(vm)) chosen.add(vm);
  changed({ now: true });
}

/** @param {any[]} problems @param {any} capacity Free slots, which a redeployment needs. */
export function down(problems, capacity) {
  const rows = downVms(problems);
  if (!rows.length) return null;
  const names = rows.map((each) => each.vm).filter(Boolean);
  for (const each of chosen) if (!names.includes(each)) chosen.delete(each);
  const hosts = new Set(rows.map((each) => each.host));
  const tenants = new Set(rows.flatMap((each) => each.problem.tenants));
  const longest = Math.min(...rows.map((each) => each.since));
  const held = hold("down-rows", rows, (each) => each.problem.problem + each.vm);
  const isAll = names.length > 0 && chosen.size === names.length;
  const toggleAll = () => {
    if (isAll) chosen.clear();
    else for (const each of names) chosen.add(each);
    changed({ now: true });
  };
  return html`<section class="card" aria-labelledby="down"><header>${pill("err", "Down")}<h2 id="down">${names.length ? count(names.length, "VM") : count(rows.length, "host")} down, unplanned</h2><span class="grow"></span>
    <span class="soft">${count(hosts.size, "host")}, ${count(tenants.size, "tenant")}, longest ${time.roughly(time.now() - longest)}</span></header>
    <table class="flow"><thead><tr>${mayOrder() ? html`<th><input type="checkbox" aria-label="All ${names.length}" .checked=${isAll} @change=${toggleAll}></th>` : nothing}<th>VM</th><th>Tenant</th><th>Host</th><th>Down for</th><th>Why</th><th>Next</th></tr></thead>
    <tbody id="down-rows">${repeat(held.rows, (each) => each.problem.problem + each.vm, (each) => downRow(each, held.over.has(each.problem.problem + each.vm)))}</tbody></table>${mayOrder() && chosen.size ? bulk(rows, capacity) : nothing}</section>`;
}

/** @param {DownVm} each @param {boolean} isOver Whether it is up again. */
function downRow(each, isOver) {
  const { vm, problem } = each;
  const first = problem.actions.includes("redeploy") && vm ? html`<button class="quiet small" @click=${() => orders.redeploy([vm])}>Redeploy…</button>`
    : html`<button class="quiet small" @click=${() => orders.restore([vm || each.host])}>Mark restored…</button>`;
  return html`<tr class=${isOver ? "over" : ""} aria-selected=${chosen.has(vm) ? "true" : nothing}>${mayOrder() ? html`<td>${vm ? html`<input type="checkbox" aria-label=${vm} .checked=${chosen.has(vm)} @change=${() => toggle(vm)}>` : nothing}</td>` : nothing}
    <th class="mono nw">${vm || "–"}</th><td class="nw">${each.tenant}</td><td class="mono nw">${hostLink(each.host)}</td><td class="bad b nw">${time.lasting(time.now() - each.since)}</td>
    <td class="wide">${each.text}</td><td>${mayOrder() ? first : problem.actions[0]}</td></tr>`;
}

/** @param {DownVm[]} rows @param {any} capacity */
function bulk(rows, capacity) {
  const free = (capacity?.zones ?? []).map((/** @type {any} */ each) => `${each.zone ? `zone ${each.zone}` : "hosts"} ${each.unlimited ? "without limit" : number(each.free)}`);
  const mine = rows.filter((each) => chosen.has(each.vm));
  const may = (/** @type {string} */ verb) => mine.every((each) => each.problem.actions.includes(verb));
  return html`<div class="bulk"><b>${count(chosen.size, "VM")}</b>
    ${may("redeploy") ? html`<button @click=${() => orders.redeploy([...chosen])}>Redeploy elsewhere…</button>` : nothing}
    ${may("restore") ? html`<button @click=${() => orders.restore([...chosen])}>Mark restored…</button>` : nothing}
    <span class="grow"></span>${free.length ? html`<span class="soft">Free slots: ${free.join(" · ")}</span>` : nothing}</div>`;
}

// Unknown

/** @param {any[]} problems */
export function unknown(problems) {
  const rows = problems.filter((each) => each.kind === "outcome-unknown");
  if (!rows.length) return null;
  return html`<section class="card" aria-labelledby="unknown"><header>${pill("err", "Unknown")}<h2 id="unknown">${count(rows.length, "operation")}: did the driver do it or not?</h2><span class="grow"></span><span class="soft">events stay Started until resolved</span></header>
    ${repeat(rows, (each) => each.problem, (each) => html`<div class="in head case"><div class="tell"><b class="mono">${each.operation}</b> of <b>${each.target ?? some(each.hosts)}</b>${each.tenants.length ? ` (${some(each.tenants)})` : ""}, since ${moment(time.at(each.since))}
      <br><span class="soft">${each.text}</span></div><span class="grow"></span>
      ${mayOrder() ? html`<div class="acts"><button @click=${() => orders.resolve(each.operation, "done", each.target ?? each.operation)}>It was done…</button><button @click=${() => orders.resolve(each.operation, "failed", each.target ?? each.operation)}>It failed…</button></div>` : nothing}</div>`)}</section>`;
}

// Waiting for approval

/** @param {any} wait */
function agents(wait) {
  const polled = time.at(wait.last_poll);
  if (!wait.enabled) return html`<td class="soft" data-l="agents">${wait.last_poll ? "not enabled" : "never polled"}</td>`;
  if (Number.isNaN(polled)) return html`<td class="soft">never polled</td>`;
  // The service stores a poll rarely, so an age of some minutes is not silence.
  const isSilent = time.now() - polled > 10 * 60_000;
  return isSilent ? html`<td class="warn b">silent for ${time.roughly(time.now() - polled)}</td>` : html`<td>polled ${time.ago(polled)}</td>`;
}

/** @param {any} wait @param {boolean} isShort Without the columns that a campaign has no room for. @param {string} rollout What is approved is of it; empty: of any. */
function waitRow(wait, isShort, rollout) {
  const since = time.at(wait.since);
  const limit = time.at(wait.not_before);
  const over = time.share(since, limit);
  const isLate = over > 0.75;
  const start = html`${time.when(limit)} · ${time.until(limit)}`;
  const may = mayOrder() && wait.enabled;
  return html`<tr><th scope="row">${wait.tenant}</th><td class="num" data-l="missing">${wait.events}</td>${isShort ? nothing : html`<td class="num" data-l="VMs">${wait.vms}</td>`}<td class="num" data-l="hosts">${wait.hosts}</td><td class="nw" data-l="since">${time.ago(since)}</td>
    <td class="nw" data-l="starts at latest">${isLate ? html`<b class="warn">${start}</b>` : start}${isShort ? nothing : little(over, isLate ? "s-held" : "s-noticed")}</td>${isShort ? nothing : agents(wait)}
    <td class="nw wide">${isShort ? nothing : html`<a class="quiet small btn" href=${address("history", ["tenant", wait.tenant], ["what", "event"])}>Which?</a> `}${
      may ? html`<button class="small" @click=${() => orders.approveFor(wait.tenant, rollout)}>${isShort ? "Approve…" : `Approve for ${wait.tenant}…`}</button>` : isShort && !wait.enabled ? html`<span class="soft">does not listen</span>` : nothing}</td></tr>`;
}

/** @param {any[]} found @param {boolean} [isShort] @param {string} [rollout] */
export const waitsTable = (found, isShort = false, rollout = "") => html`<table class="flow"><thead><tr><th>Tenant</th><th class="num">Missing</th>${isShort ? nothing : html`<th class="num">VMs</th>`}<th class="num">Hosts</th><th>Since</th><th>Starts at latest</th>${isShort ? nothing : html`<th>Agents</th>`}<th><span class="vh">Act</span></th></tr></thead>
  <tbody id="wait-rows">${repeat(hold("wait-rows", found, (each) => each.tenant, rollout).rows, (each) => each.tenant, (each) => waitRow(each, isShort, rollout))}</tbody></table>`;

/** @param {import("../store.js").Resource} waits */
export function waiting({ value }) {
  if (!value?.waits.length) return null;
  return html`<section class="card" aria-labelledby="waits"><header>${pill("wait", "Waits")}<h2 id="waits">Waiting for approval</h2><span class="grow"></span><span class="soft">${count(value.sums.events, "approval")} of ${count(value.sums.tenants, "tenant")}, longest wait first${value.complete ? "" : "; not all are counted"}</span></header>
    ${waitsTable(value.waits)}</section>`;
}

// Held, and all other problems

const ELSEWHERE = new Set(["vm-down", "outcome-unknown", "not-ready", "database-lost", "no-leader"]);
/** Words and forms of the kinds. @type {Record<string, ["err" | "wait", string]>} */
const KINDS = {
  held: ["wait", "Held"], "approval-late": ["wait", "Approval late"], "driver-failing": ["err", "Driver fails"], "visit-failed": ["err", "Visit failed"],
  "visit-late": ["wait", "Visit late"], "campaign-halted": ["err", "Halted"], "campaign-failed-hosts": ["err", "Failed hosts"], "campaign-waits": ["wait", "Stage waits"],
  "campaign-stalled": ["wait", "Stalled"], "no-common-window": ["wait", "No window"], blackout: ["wait", "Blackout"], "webhook-late": ["wait", "Webhook late"],
  "host-cordoned": ["wait", "Cordoned"], "relay-silent": ["wait", "Relay silent"], brake: ["wait", "Brake"], "shared-host": ["wait", "Shared host"], "vms-stopped": ["err", "VMs stopped"],
};

/** @param {string} name */
const campaignNamed = (name) => one("campaigns", name) ?? all("campaigns").find((each) => each.name === name && !each.ended);

/** @param {any} problem */
function caseRow(problem) {
  const [form, word] = KINDS[problem.kind] ?? ["wait", capital(problem.kind.replaceAll("-", " "))];
  const campaign = problem.campaign && campaignNamed(problem.campaign);
  const buttons = mayOrder() ? orders.remedies(problem, campaign) : [];
  const link = campaign ? html`<a class="btn" href=${campaignAddress(campaign.campaign)}>Show</a>`
    : problem.hosts.length ? html`<a class="btn" href=${address("hosts", ["host", problem.hosts[0]])}>Why?</a>` : nothing;
  return html`<div class="in head case"><div class="tell">${pill(form, word)} ${problem.text}
    ${problem.since ? html`<span class="soft nw">since ${moment(time.at(problem.since))}</span>` : nothing}</div><span class="grow"></span>
    <div class="acts">${buttons.map(([label, call]) => html`<button @click=${call}>${label}</button>`)}${link}</div></div>`;
}

/** @param {any[]} problems @param {any[]} holds What windows, blackouts and relays hold. */
export function held(problems, holds) {
  const rows = problems.filter((each) => !ELSEWHERE.has(each.kind));
  if (!rows.length && !holds.length) return null;
  const title = rows.length ? `${count(rows.length, "thing")} held or in trouble` : `${count(holds.length, "hold")} by plan`;
  return html`<section class="card" aria-labelledby="held"><header>${pill("wait", "Held")}<h2 id="held">${title}</h2></header>
    <div id="held-rows">${repeat(hold("held-rows", rows, (each) => each.problem).rows, (each) => each.problem, caseRow)}</div>
    ${holds.map((each) => html`<div class="in head case"><div class="tell">${each.text} <span class="soft nw">${count(each.hosts, "host")}${each.until ? html`, until ${moment(time.at(each.until))}` : nothing}</span></div></div>`)}</section>`;
}
