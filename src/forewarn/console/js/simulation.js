// The sheet of a simulated campaign, for the file of `campaign simulate --html`: values in, a
// template out.

import { html, nothing } from "./lit.js";
import { campaignPill, pill, timed } from "./parts.js";
import { fact, hosts, table, terms } from "./sheet.js";
import { capital, count, number } from "./text.js";
import * as time from "./time.js";

/**
 * The state of a host in a campaign, by its state in the simulation.
 * @type {Record<string, string>}
 */
const STATES = { done: "done", failed: "failed", "in-work": "impacting", announced: "announced" };

/** A host of the simulation, as a row of a campaign. @param {any} host @param {string} end */
function row({ host, cluster, rack, stage, state, begins, starts, ends }, end) {
  const stop = ends ?? end;
  const segments = [{ state: "announced", from: begins, until: starts ?? stop }];
  if (starts) segments.push({ state: "impacting", from: starts, until: stop });
  // A failed host keeps its place in the budgets.
  if (state === "failed") segments.push({ state, from: stop, until: end });
  return {
    host,
    cluster,
    rack,
    stage,
    state: STATES[state] ?? state,
    attempts: 1,
    step: null,
    segments,
    forecast: null,
    approvals: null,
    blockers: [],
    not_before: null,
    note: "",
  };
}

/** @type {WeakMap<any, any[]>} */
const rows = new WeakMap();

/** @param {any} told @returns {any[]} */
function rowsOf(told) {
  const found = rows.get(told) ?? told.hosts.map((/** @type {any} */ each) => row(each, told.ends));
  rows.set(told, found);
  return found;
}

const instant = (/** @type {string | null} */ text) => (text ? time.when(time.at(text)) : "–");

/** @param {any} told */
const nights = (told) =>
  table(
    told.has_windows ? "Nights" : "Days",
    [
      told.has_windows ? "Opens" : "Begins",
      told.has_windows ? "Closes" : "Ends",
      "Done #",
      "Failed #",
    ],
    told.periods.map((/** @type {any} */ each) => [
      instant(each.opens),
      instant(each.closes),
      number(each.done),
      number(each.failed),
    ]),
  );

/** @param {any} told */
const stages = (told) =>
  table(
    "Stages",
    ["Stage", "Hosts #", "Done #", "Failed #", "Begins", "Ends"],
    told.stages.map((/** @type {any} */ each) => [
      each.stage,
      number(each.hosts),
      number(each.done),
      number(each.failed),
      instant(each.begins),
      instant(each.ends),
    ]),
  );

/** @param {any} told */
const budgets = (told) =>
  table(
    "Budgets",
    ["Budget", "Where", "Used #", "Of #", "At"],
    told.budgets.map((/** @type {any} */ each) => [
      `${each.kind} ${each.label}`,
      each.subject || "–",
      number(each.used),
      each.most === null ? "–" : number(each.most),
      instant(each.at),
    ]),
  );

/** @param {any} told */
const interruptions = (told) =>
  table(
    "Interruptions",
    ["Interruption", "VMs #", "Minutes #", "Still down #"],
    told.interruptions.map((/** @type {any} */ each) => [
      each.kind,
      number(each.vms),
      number(each.minutes),
      number(each.still_down),
    ]),
  );

/** @param {any} told */
function state(told) {
  if (told.is_stuck) return pill("err", "Stuck");
  return campaignPill(told);
}

/**
 * @param {{simulation: any, facts: string[]}} data The answer of `/v1/campaigns/simulate`, and its
 *   sentences.
 */
export function simulation({ simulation: told, facts }) {
  const [begins, ends] = [time.at(told.begins), time.at(told.ends)];
  time.stand(ends);
  return html`<article class="paper wide">
    <header class="head">
      <div class="tell">
        <h1>${told.campaign} ${pill("idle", "Simulation")} ${state(told)}</h1>
        <p class="what">
          ${told.reason ? html`${told.reason} · ` : nothing}${told.impact} ·
          ${count(told.host_count, "host")} · ${count(told.vm_count, "VM")} · seed ${told.seed}
        </p>
      </div>
      <span class="grow"></span>
      <p class="num soft">
        ${time.full(begins)}<br />– ${time.full(ends)}<br />Nothing was announced or changed
      </p>
    </header>
    <div class="facts">
      ${fact(number(told.done), `of ${count(told.host_count, "host")} done`)}${fact(
        number(told.failed.length),
        "failed",
        told.failed.length > 0,
      )}${fact(number(told.left), "left", told.left > 0)}
      ${fact(
        time.roughly(told.seconds * 1000),
        "from begin to end",
      )}${fact(instant(told.forecast_ends), "end by the plan")}${fact(
        `${told.notice.used_percent} %`,
        "of the notice used",
      )}
    </div>
    ${told.warnings.map(
      (/** @type {string} */ each) =>
        html`<div class="note w"><span>${capital(each)}.</span></div>`,
    )}
    <ul>
      ${facts.map((each) => html`<li>${timed(capital(each.trim()))}</li>`)}
    </ul>
    ${told.hosts.length ? hosts(rowsOf(told), terms([], told.blackouts), begins, ends) : nothing}
    ${
      told.hosts_left_out
        ? html`<p class="soft">And ${count(told.hosts_left_out, "more host")}.</p>`
        : nothing
    }
    <div class="pair">
      <section aria-labelledby="nights">
        <h2 id="nights">${told.has_windows ? "Nights" : "Days"}</h2>
        ${nights(told)}
      </section>
      <section aria-labelledby="stages">
        <h2 id="stages">Stages</h2>
        ${stages(told)}
      </section>
    </div>
    <section aria-labelledby="budgets">
      <h2 id="budgets">Worst moment of each budget</h2>
      ${budgets(told)}
    </section>
    ${
      told.interruptions.length
        ? html`<section aria-labelledby="vms">
            <h2 id="vms">Interruptions of VMs</h2>
            ${interruptions(told)}
          </section>`
        : nothing
    }
    <section aria-labelledby="failures">
      <h2 id="failures">Failed hosts</h2>
      ${
        told.failed.length
          ? html`<p class="mono">${told.failed.join(", ")}</p>`
          : html`<p class="soft">None.</p>`
      }
    </section>
  </article>`;
}
