// Three lists of Now: unknown, waiting for approval, held.

import { html, nothing, repeat } from "../lit.js";
import { all, campaignNamed } from "../store.js";
import { address, campaignAddress, marked, mayOrder, moment, pill, timed } from "../parts.js";
import { hold } from "../hold.js";
import * as remedies from "../remedies.js";
import { capital, count, some } from "../text.js";
import * as time from "../time.js";
import { waitsTable } from "./waits_table.js";

// Unknown

/** VMs of an operation that are named with what was seen of them. */
const SIGHTED_SHOWN = 3;

/** What was seen of the VMs since, which helps to decide. @param {any} problem */
function sighted({ sighted: seen }) {
  if (!seen.length) return html`<span class="soft">Nothing new was seen of its VMs since.</span>`;
  const more = seen.length - SIGHTED_SHOWN;
  const parts = seen.slice(0, SIGHTED_SHOWN).map(seenOf);
  return html`Seen since: ${parts}${more > 0 ? `, and ${count(more, "more VM")}` : ""}`;
}

/** @param {any} each @param {number} index */
const seenOf = ({ vm, running, host, at }, index) =>
  html`${index ? "; " : ""}<b>${vm}</b> ${running ? "runs" : "does not run"}${
      host ? ` on ${host}` : ""
    },
    ${time.ago(time.at(at))}`;

/** @param {any[]} problems */
export function unknown(problems) {
  const rows = problems.filter((each) => each.kind === "outcome-unknown");
  if (!rows.length) return null;
  return html`<section class="card" aria-labelledby="unknown">
    <header>
      ${pill("err", "Unknown")}
      <h2 id="unknown">${count(rows.length, "operation")}: did the driver do it or not?</h2>
      <span class="grow"></span><span class="soft">events stay Started until resolved</span>
    </header>
    ${repeat(
      rows,
      (each) => each.problem,
      (each) =>
        html`<div class="in head case">
          <div class="tell">
            <b class="mono">${each.operation}</b> of
            <b>${each.target ?? some(each.hosts)}</b
            >${each.tenants.length ? ` (${some(each.tenants)})` : ""}, since
            ${moment(time.at(each.since))} <br /><span class="soft">${timed(each.text)}</span
            ><br />${sighted(each)}
          </div>
          <span class="grow"></span>
          ${
            mayOrder("resolve")
              ? html`<div class="acts">
                  <button
                    @click=${() =>
                      remedies.resolve(each.operation, "done", each.target ?? each.operation)}
                  >
                    It was done…</button
                  ><button
                    @click=${() =>
                      remedies.resolve(each.operation, "failed", each.target ?? each.operation)}
                  >
                    It failed…
                  </button>
                </div>`
              : nothing
          }
        </div>`,
    )}
  </section>`;
}

// Waiting for approval

/** @param {import("../store.js").Resource} waits */
export function waiting({ value }) {
  if (!value?.waits.length) return null;
  return html`<section class="card" aria-labelledby="waits">
    <header>
      ${pill("wait", "Waits")}
      <h2 id="waits">Waiting for approval</h2>
      <span class="grow"></span
      ><span class="soft"
        >${count(value.sums.events, "approval")} of ${count(value.sums.tenants, "tenant")}, longest
        wait first${value.complete ? "" : "; not all are counted"}</span
      >
    </header>
    ${waitsTable(value.waits)}
  </section>`;
}

// Held, and all other problems

const ELSEWHERE = new Set([
  "vm-down",
  "outcome-unknown",
  "not-ready",
  "database-lost",
  "no-leader",
]);
/** Words and forms of the kinds. @type {Record<string, ["err" | "wait", string]>} */
const KINDS = {
  held: ["wait", "Held"],
  "approval-late": ["wait", "Approval late"],
  "driver-failing": ["err", "Driver fails"],
  "visit-failed": ["err", "Visit failed"],
  "visit-late": ["wait", "Visit late"],
  "campaign-halted": ["err", "Halted"],
  "campaign-failed-hosts": ["err", "Failed hosts"],
  "campaign-waits": ["wait", "Stage waits"],
  "campaign-stalled": ["wait", "Stalled"],
  "no-common-window": ["wait", "No window"],
  blackout: ["wait", "Blackout"],
  "webhook-late": ["wait", "Webhook late"],
  "host-cordoned": ["wait", "Cordoned"],
  "relay-silent": ["wait", "Relay silent"],
  brake: ["wait", "Brake"],
  "shared-host": ["wait", "Shared host"],
  "vms-stopped": ["err", "VMs stopped"],
  "vm-not-running": ["err", "VM does not run"],
};

/** @param {any} problem */
function caseRow(problem) {
  const [form, word] = KINDS[problem.kind] ?? ["wait", capital(problem.kind.replaceAll("-", " "))];
  const campaign = problem.campaign && campaignNamed(problem.campaign);
  const buttons = remedies.remedies(problem, campaign);
  const link = campaign
    ? html`<a class="btn" href=${campaignAddress(campaign.campaign)}>Show</a>`
    : problem.hosts.length
      ? html`<a class="btn" href=${address("hosts", ["host", problem.hosts[0]])}>Why?</a>`
      : nothing;
  return html`<div class="in head case">
    <div class="tell">
      ${pill(form, word)} ${marked(problem.text)}
      ${
        problem.since
          ? html`<span class="soft nw">since ${moment(time.at(problem.since))}</span>`
          : nothing
      }
    </div>
    <span class="grow"></span>
    <div class="acts">
      ${buttons.map(([label, call]) => html`<button @click=${call}>${label}</button>`)}${link}
    </div>
  </div>`;
}

/** @param {any[]} problems @param {any[]} holds What windows, blackouts and relays hold. */
export function held(problems, holds) {
  const rows = problems.filter((each) => !ELSEWHERE.has(each.kind));
  if (!rows.length && !holds.length) return null;
  const title = rows.length
    ? `${count(rows.length, "thing")} held or in trouble`
    : `${count(holds.length, "hold")} by plan`;
  return html`<section class="card" aria-labelledby="held">
    <header>
      ${pill("wait", "Held")}
      <h2 id="held">${title}</h2>
    </header>
    <div id="held-rows">
      ${repeat(
        hold("held-rows", rows, (each) => each.problem).rows,
        (each) => each.problem,
        caseRow,
      )}
    </div>
    ${holds.map(
      (each) =>
        html`<div class="in head case">
          <div class="tell">
            ${timed(each.text)}
            <span class="soft nw"
              >${count(each.hosts, "host")}${
                each.until ? html`, until ${moment(time.at(each.until))}` : nothing
              }</span
            >
          </div>
        </div>`,
    )}
  </section>`;
}
