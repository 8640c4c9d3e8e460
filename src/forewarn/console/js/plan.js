// The sheet of a plan, for the file of `campaign plan --html`: values in, a template out.

import { html, nothing } from "./lit.js";
import { pill } from "./parts.js";
import { fact, hosts, table, terms } from "./sheet.js";
import { capital, count, number, some } from "./text.js";
import * as time from "./time.js";
import { waveList } from "./waves.js";

/** A host of the plan, as a row of a campaign. @param {any} host */
const row = ({ host, cluster, rack, stage, begins, ends }) => ({
  host,
  cluster,
  rack,
  stage,
  state: "planned",
  attempts: 1,
  step: null,
  segments: [],
  forecast: { from: begins, until: ends },
  approvals: null,
  blockers: [],
  not_before: null,
  note: "",
});

/** @type {WeakMap<any, any[]>} */
const rows = new WeakMap();

/** @param {any} plan @returns {any[]} */
function rowsOf(plan) {
  const found = rows.get(plan) ?? plan.hosts.map(row);
  rows.set(plan, found);
  return found;
}

/** @param {any} plan */
function waves(plan) {
  const stages = plan.stages.map((/** @type {any} */ each) => ({
    hosts: each.host_count,
    left: each.host_count,
    soak_seconds: each.soak_seconds,
    approval: each.approval,
    approved: false,
    soaks_until: null,
  }));
  return waveList({ stage: 0, state: "Planned", stages, hosts: plan.host_count }, plan.stages);
}

/** @param {any} plan */
function bounds(plan) {
  return table(
    "Constraints",
    ["Constraint", "Rounds #"],
    plan.bounds.map((/** @type {any} */ each, /** @type {number} */ index) => [
      html`<span class="says"
        >${capital(each.message)}${index ? nothing : html` ${pill("wait", "binds")}`}</span
      >`,
      number(each.rounds),
    ]),
  );
}

/** Hosts that the campaign would leave out. @param {any} plan */
function refused(plan) {
  if (!plan.refused_count) return nothing;
  const left = plan.refused_count - plan.refused.length;
  const reasons = Object.entries(plan.refused_by_reason).map(
    ([reason, hosts_]) => `${number(Number(hosts_))} ${reason}`,
  );
  return html`<section aria-labelledby="refused">
    <h2 id="refused">${count(plan.refused_count, "host")} that cannot be done now</h2>
    <p class="soft">They would be left out: ${reasons.join(", ")}.</p>
    ${table(
      "Hosts that cannot be done",
      ["Host", "Why"],
      plan.refused.map((/** @type {any} */ each) => [
        html`<span class="mono nw">${each.host}</span>`,
        capital(each.message),
      ]),
    )}
    ${left > 0 ? html`<p class="soft">And ${count(left, "more host")}.</p>` : nothing}
  </section>`;
}

/**
 * @param {string} id
 * @param {string} title
 * @param {any[]} list Groups of hosts, each with a message and a hint.
 */
function groups(id, title, list) {
  if (!list.length) return nothing;
  return html`<section aria-labelledby=${id}>
    <h2 id=${id}>${title}</h2>
    ${list.map(
      (each) =>
        html`<div class="note w">
          <span
            ><b>${capital(each.message)}.</b> ${each.hint}<br /><span class="mono"
              >${some(each.hosts, 20)}</span
            ></span
          >
        </div>`,
    )}
  </section>`;
}

/** @param {any} told The plan, in a file: it is looked at later. */
export function plan(told) {
  time.stand(time.at(told.planned_at));
  return planSheet(told);
}

/** @param {any} told The plan, as `/v1/campaigns/plan` answers. */
export function planSheet(told) {
  const planned = time.at(told.planned_at);
  const last = told.hosts.at(-1);
  const [from, until] = [time.at(told.typical.begins), time.at(told.typical.ends)];
  return html`<article class="paper wide">
    <header class="head">
      <div class="tell">
        <h1>${told.campaign} ${pill("idle", "Plan")}</h1>
        <p class="what">
          ${told.reason} · ${told.impact} · ${count(told.host_count, "host")} ·
          ${count(told.stages.length, "stage")}
        </p>
      </div>
      <span class="grow"></span>
      <p class="num soft">
        made ${time.full(planned)}<br />Nothing was announced or changed<br />plan
        <span class="mono">${told.digest}</span>
      </p>
    </header>
    <div class="facts">
      ${fact(number(told.host_count), "hosts")}${fact(
        number(told.vm_count),
        told.tenant_count === 1 ? "VMs of 1 tenant" : `VMs of ${number(told.tenant_count)} tenants`,
      )}${fact(time.when(until), "end, typical hosts")}${fact(
        time.when(time.at(told.slow.ends)),
        "end, slow hosts",
      )}
      ${fact(
        number(told.sets),
        `sets that can be in work together, at least ${number(told.sets_at_least)}`,
      )}${fact(number(told.refused_count), "cannot be done now", told.refused_count > 0)}
    </div>
    ${told.warnings.map(
      (/** @type {string} */ each) =>
        html`<div class="note w"><span>${capital(each)}.</span></div>`,
    )}
    <section aria-label="Waves">${waves(told)}</section>
    ${last ? hosts(rowsOf(told), terms(told.openings, told.blackouts), from, until) : nothing}
    ${
      told.hosts_left_out
        ? html`<p class="soft">And ${count(told.hosts_left_out, "more host")}.</p>`
        : nothing
    }
    <div class="pair">
      <section aria-labelledby="bounds">
        <h2 id="bounds">What limits the pace</h2>
        ${bounds(told)}
      </section>
      <section aria-labelledby="limits">
        <h2 id="limits">Budgets</h2>
        <ul>
          ${told.limits.map((/** @type {string} */ each) => html`<li>${capital(each)}</li>`)}
        </ul>
      </section>
    </div>
    ${refused(told)}${groups(
      "apart",
      "Hosts whose windows are never open together",
      told.apart,
    )}${groups("held", "Hosts of other campaigns", told.held)}
  </article>`;
}
