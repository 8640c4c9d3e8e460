// The first list of Now: VMs that are down, and what can be done for those that are chosen.

import { html, nothing, repeat } from "../lit.js";
import { post } from "../api.js";
import { whereTo } from "../effect.js";
import { all, campaignNamed, changed, latest, resource } from "../store.js";
import { hostLink, mayOrder, pill, timed } from "../parts.js";
import { hold, newer } from "../hold.js";
import * as orders from "../orders.js";
import * as remedies from "../remedies.js";
import { count, number } from "../text.js";
import * as time from "../time.js";

/**
 * @typedef {{vm: string, tenant: string, host: string, since: number, text: string, problem: any}}
 *   DownVm
 */

/** Selected VMs. @type {Set<string>} */
const chosen = new Set();

/**
 * VMs of an operation by name: their tenants.
 * @type {Map<string, import("../store.js").Resource>}
 */
const details = new Map();

/** The tenant of a VM, from the events of its operation. @param {any} problem @param {string} vm */
function tenantOf(problem, vm) {
  if (problem.tenants.length < 2 || !problem.operation) return problem.tenants[0] ?? "";
  let detail = details.get(problem.operation);
  if (!detail) {
    detail = resource(
      `/v1/events?host=${encodeURIComponent(problem.hosts[0] ?? "")}&all=true&limit=1000`,
      { topics: [] },
    );
    details.set(problem.operation, detail);
  }
  const event = detail.value?.events.find((/** @type {any} */ each) => each.vms.includes(vm));
  return event?.tenant ?? "";
}

/** The lists that name the tenants of VMs, and where the chosen ones would go. */
export const lookups = () => [
  ...details.values(),
  ...(chosen.size && isAllowed("redeploy", chosenOf(all("problems"))) ? [room()] : []),
];

/** @param {any[]} problems @returns {DownVm[]} */
const downVms = (problems) =>
  problems
    .filter((each) => each.kind === "vm-down")
    .flatMap((problem) =>
      (problem.vms.length ? problem.vms : [""]).map((/** @type {string} */ vm) => ({
        vm,
        problem,
        tenant: vm && tenantOf(problem, vm),
        host: problem.hosts[0] ?? "",
        since: time.at(problem.since),
        text:
          vm && problem.target === problem.hosts[0] && problem.vms.length > 1
            ? `its host is down${problem.cause && `: ${problem.cause}`}`
            : problem.cause || problem.text,
      })),
    );

/** @param {string} vm */
function toggle(vm) {
  if (!chosen.delete(vm)) chosen.add(vm);
  changed({ now: true });
}

/** Whether something can be done with VMs that are chosen. */
const isChosen = () => ["redeploy", "restore", "campaign-retry"].some((each) => mayOrder(each));

/** @param {any[]} problems @param {any} capacity Free slots, which a redeployment needs. */
export function down(problems, capacity) {
  const rows = downVms(problems);
  if (!rows.length) {
    details.clear();
    return null;
  }
  const names = rows.map((each) => each.vm).filter(Boolean);
  const operations = new Set(rows.map((each) => each.problem.operation));
  for (const each of details.keys()) if (!operations.has(each)) details.delete(each);
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
  return html`<section class="card" aria-labelledby="down">
    <header>
      ${pill("err", "Down")}
      <h2 id="down">
        ${names.length ? count(names.length, "VM") : count(rows.length, "host")} down, unplanned
      </h2>
      ${newer("down-rows")}<span class="grow"></span>
      <span class="soft"
        >${count(hosts.size, "host")}, ${count(tenants.size, "tenant")}, longest
        ${time.roughly(time.now() - longest)}</span
      >
    </header>
    <table class="flow">
      <thead>
        <tr>
          ${
            isChosen()
              ? html`<th>
                  <input
                    type="checkbox"
                    aria-label="All ${names.length}"
                    .checked=${isAll}
                    @change=${toggleAll}
                  />
                </th>`
              : nothing
          }
          <th>VM</th>
          <th>Tenant</th>
          <th>Host</th>
          <th>Down for</th>
          <th>Why</th>
          <th>Next</th>
        </tr>
      </thead>
      <tbody id="down-rows">
        ${repeat(
          held.rows,
          (each) => each.problem.problem + each.vm,
          (each) => downRow(each, held.over.has(each.problem.problem + each.vm)),
        )}
      </tbody>
    </table>
    ${isChosen() && chosen.size ? bulk(chosenOf(problems), capacity) : nothing}
  </section>`;
}

/** @param {DownVm} each @param {boolean} isOver Whether it is up again. */
function downRow(each, isOver) {
  const { vm, problem } = each;
  const verb = problem.actions.includes("redeploy") && vm ? "redeploy" : "restore";
  const first =
    verb === "redeploy"
      ? html`<button class="quiet small" @click=${() => remedies.redeploy([vm])}>Redeploy…</button>`
      : html`<button class="quiet small" @click=${() => remedies.restore([vm || each.host])}>
          Mark restored…
        </button>`;
  return html`<tr class=${isOver ? "over" : ""} aria-selected=${chosen.has(vm) ? "true" : nothing}>
    ${
      isChosen()
        ? html`<td>
            ${
              vm
                ? html`<input
                    type="checkbox"
                    aria-label=${vm}
                    .checked=${chosen.has(vm)}
                    @change=${() => toggle(vm)}
                  />`
                : nothing
            }
          </td>`
        : nothing
    }
    <th class="mono nw">${vm || "–"}</th>
    <td class="nw">${each.tenant}</td>
    <td class="mono nw">${hostLink(each.host)}</td>
    <td class="bad b nw">${time.lasting(time.now() - each.since)}</td>
    <td class="wide">${timed(each.text)}</td>
    <td>${mayOrder(verb) ? first : problem.actions[0]}</td>
  </tr>`;
}

/** VMs of a selection whose hosts are looked for. */
const PLACED_MAX = 50;
/** Where VMs would go, as the service decides. */
const roomFor = latest((/** @type {string[]} */ vms) =>
  resource(() => post("/v1/redeploy", { vms: vms.slice(0, PLACED_MAX), dry_run: true }), {
    topics: ["problems"],
    pause: 5000,
  }),
);
const room = () => roomFor([...chosen].sort());

/** @param {any} answer Of a redeployment that nothing was changed by. */
function placed({ moves, refused }) {
  const none = refused.length ? `no host for ${count(refused.length, "VM")}` : "";
  const where = moves.length ? `would go to ${whereTo(moves)}` : "";
  return [where, none].filter(Boolean).join(", ") || "no host has room";
}

/** @param {any[]} problems @returns {any[]} Those of the VMs that are chosen. */
const chosenOf = (problems) =>
  problems.filter(
    (each) =>
      each.kind === "vm-down" && each.vms.some((/** @type {string} */ vm) => chosen.has(vm)),
  );

/**
 * Whether an order can be given for all VMs that are chosen.
 * @param {string} verb Such as campaign retry.
 * @param {any[]} problems Of the chosen VMs.
 */
const isAllowed = (verb, problems) =>
  mayOrder(verb.replace(" ", "-")) && problems.every((each) => each.actions.includes(verb));

/** @param {any[]} problems Of the chosen VMs. @param {any} capacity */
function bulk(problems, capacity) {
  const free = (capacity?.zones ?? []).map(
    (/** @type {any} */ each) =>
      `${each.zone ? `zone ${each.zone}` : "hosts"} ` +
      (each.unlimited ? "without limit" : number(each.free)),
  );
  const may = (/** @type {string} */ verb) => isAllowed(verb, problems);
  const campaigns = new Set(problems.map((each) => each.campaign));
  const campaign = campaigns.size === 1 ? campaignNamed([...campaigns][0] ?? "") : undefined;
  const hosts = [...new Set(problems.map((each) => each.hosts[0] ?? ""))];
  return html`<div class="bulk">
    <b>${count(chosen.size, "VM")}</b>
    ${
      may("redeploy")
        ? html`<button @click=${() => remedies.redeploy([...chosen])}>Redeploy elsewhere…</button>`
        : nothing
    }
    ${
      campaign && may("campaign retry")
        ? html`<button @click=${() => orders.retry(campaign, hosts)}>
            Retry ${count(hosts.length, "host")}…
          </button>`
        : nothing
    }
    ${
      may("restore")
        ? html`<button @click=${() => remedies.restore([...chosen])}>Mark restored…</button>`
        : nothing
    }
    <span class="grow"></span>${
      may("redeploy") && room().value
        ? html`<span class="soft">${placed(room().value)}</span>`
        : free.length
          ? html`<span class="soft">Free slots: ${free.join(" · ")}</span>`
          : nothing
    }
  </div>`;
}
