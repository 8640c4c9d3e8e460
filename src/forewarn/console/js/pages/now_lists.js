// Four lists of Now: unknown, failed, waiting for approval, held.

import { html, nothing, repeat } from "../lit.js";
import { address, campaignAddress, mayOrder, moment, pill, timed } from "../parts.js";
import { hold, newer } from "../hold.js";
import { isBad } from "../needs.js";
import * as remedies from "../remedies.js";
import { count, some } from "../text.js";
import * as time from "../time.js";
import { problemRow } from "./problem_row.js";
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
  const table = waitsTable(value.waits);
  return html`<section class="card" aria-labelledby="waits">
    <header>
      ${pill("wait", "Waits")}
      <h2 id="waits">Waiting for approval</h2>
      ${newer("wait-rows")}<span class="grow"></span
      ><span class="soft"
        >${count(value.sums.events, "approval")} of ${count(value.sums.tenants, "tenant")}, longest
        wait first${value.complete ? "" : "; not all are counted"}</span
      >
    </header>
    ${table}
  </section>`;
}

// Failed, and held with all other problems

const ELSEWHERE = new Set([
  "vm-down",
  "outcome-unknown",
  "not-ready",
  "database-lost",
  "no-leader",
]);

/** @param {any} problem */
const caseRow = (problem) =>
  problemRow(
    problem,
    (campaign) =>
      campaign
        ? html`<a class="btn" href=${campaignAddress(campaign.campaign, problem.hosts[0])}>Show</a>`
        : problem.hosts.length
          ? html`<a class="btn" href=${address("hosts", ["host", problem.hosts[0]])}>Why?</a>`
          : nothing,
    problem.since
      ? html`<span class="soft nw">since ${moment(time.at(problem.since))}</span>`
      : nothing,
  );

/** @param {any[]} rows @param {string} id */
const caseRows = (rows, id) =>
  html`<div id=${id}>
    ${repeat(hold(id, rows, (each) => each.problem).rows, (each) => each.problem, caseRow)}
  </div>`;

/** What has failed, without what has a list of its own. @param {any[]} problems */
export function failed(problems) {
  const rows = problems.filter((each) => !ELSEWHERE.has(each.kind) && isBad(each));
  if (!rows.length) return null;
  const shown = caseRows(rows, "failed-rows");
  return html`<section class="card" aria-labelledby="failed">
    <header>
      ${pill("err", "Failed")}
      <h2 id="failed">${count(rows.length, "failure")}</h2>
      ${newer("failed-rows")}
    </header>
    ${shown}
  </section>`;
}

/** @param {any[]} problems @param {any[]} holds What windows, blackouts and relays hold. */
export function held(problems, holds) {
  const rows = problems.filter((each) => !ELSEWHERE.has(each.kind) && !isBad(each));
  if (!rows.length && !holds.length) return null;
  const title = rows.length
    ? `${count(rows.length, "thing")} held`
    : `${count(holds.length, "hold")} by plan`;
  const shown = caseRows(rows, "held-rows");
  return html`<section class="card" aria-labelledby="held">
    <header>
      ${pill("wait", "Held")}
      <h2 id="held">${title}</h2>
      ${newer("held-rows")}
    </header>
    ${shown}
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
