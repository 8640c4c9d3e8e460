// The upper part of a campaign: name and verbs, counts, waves and budgets.

import { groupedBy } from "../groups.js";
import { html, nothing } from "../lit.js";
import { address, bar, campaignPill, hourOf, marked, mayOrder } from "../parts.js";
import * as orders from "../orders.js";
import { isShort, needs, places } from "../room.js";
import { count, number } from "../text.js";
import * as time from "../time.js";
import { waveList } from "../waves.js";
import { answers, checkAgain } from "./checking.js";

/** @param {any} campaign */
function because(campaign) {
  const { halted } = campaign;
  if (halted)
    return html`<b class="bad">Halted</b> by ${halted.by}, ${time.when(time.at(halted.at))}:
      ${marked(halted.message || halted.cause)}`;
  const [paused] = campaign.pauses;
  if (paused)
    return html`Paused by ${paused.by}, ${time.when(time.at(paused.at))}
    ${paused.reason ? html`<q>${paused.reason}</q>` : nothing}: ${count(campaign.in_flight, "host")}
    announced or in work ${campaign.in_flight === 1 ? "goes" : "go"} on, nothing new starts`;
  return campaign.waits_for
    ? html`<span title=${campaign.waits_for}>Waits: ${marked(campaign.waits_shortly)}</span>`
    : nothing;
}

/**
 * @param {any} campaign
 * @param {any} outlook
 * @param {any[]} failing Checks that do not pass, if one of them has halted it.
 */
function verbs(campaign, outlook, failing) {
  if (campaign.ended) return nothing;
  const isStopped = campaign.state === "Halted";
  const isIdle = isStopped || campaign.pauses.length > 0;
  const may = (/** @type {string} */ verb) =>
    mayOrder(`campaign-${verb}`) && (!outlook || outlook.verbs.includes(`campaign-${verb}`));
  const waits =
    !campaign.released || outlook?.stages.some((/** @type {any} */ each) => each.needs_approval);
  const failed = campaign.failed.length;
  return html`${
    failed && may("retry")
      ? html`<button @click=${() => orders.retry(campaign, [])}>Retry ${number(failed)}…</button>`
      : nothing
  }
  ${
    waits && may("approve")
      ? html`<button class="prim" @click=${() => orders.approveStage(campaign)}>
          Approve stage ${orders.stageToApprove(campaign)}…
        </button>`
      : nothing
  }
  ${
    mayOrder(isIdle ? "campaign-resume" : "campaign-pause")
      ? html`<button
          class=${isIdle && !waits ? "prim" : ""}
          @click=${() => (isIdle ? orders.resume(campaign) : orders.pause(campaign))}
        >
          ${isIdle ? "Resume…" : "Pause…"}
        </button>`
      : nothing
  }
  ${
    mayOrder("campaign-resume") && outlook?.verbs.includes("campaign-override")
      ? failing.map(
          ({ name }) =>
            html`<button @click=${() => orders.override(campaign, name)}>
              Override ${name}…
            </button>`,
        )
      : nothing
  }
  ${
    isStopped
      ? mayOrder("campaign-abort")
        ? html`<button @click=${() => orders.abort(campaign)}>Abort…</button>`
        : nothing
      : mayOrder("campaign-halt")
        ? html`<button
              class="stop"
              aria-describedby="stopwhat"
              @click=${() => orders.halt(campaign)}
            >
              ■ Stop</button
            ><span class="vh" id="stopwhat">Asks first; cancels what has not started</span>`
        : nothing
  }`;
}

/**
 * @param {any} campaign
 * @param {any} outlook
 * @param {any[]} checks Checks, if one of them has halted it.
 * @param {() => void} whenAsked Called when the checks have been asked again.
 */
export function head(campaign, outlook, checks, whenAsked) {
  const failing = checks.filter((each) => each.outcome !== "pass");
  return html`<div class="head steer">
    <div class="tell">
      <h1>
        ${campaign.name}
        ${campaignPill(campaign)}${
          campaign.emergency ? html` <span class="pill wait">Emergency</span>` : nothing
        }
      </h1>
      <p class="what">
        ${campaign.reason} · ${campaign.impact} ·
        <span class="mono">${campaign.campaign}</span> · ${campaign.actor},
        ${time.when(time.at(campaign.created))}
      </p>
      <p class="what now-what">${because(campaign)}</p>
      ${answers(checks)}
    </div>
    <span class="grow"></span>
    <div class="acts stopbar">
      ${
        mayOrder("campaigns/plan")
          ? html`<a class="btn hide-p" href=${address("plan", ["campaign", campaign.campaign])}
              >Plan</a
            >`
          : nothing
      }<a class="btn" href=${address(`campaigns/${encodeURIComponent(campaign.campaign)}/report`)}
        >Report</a
      >${checkAgain(failing, whenAsked)}${verbs(campaign, outlook, failing)}
    </div>
  </div>`;
}

/** What has become of the VMs. @param {any} campaign @param {any} sums */
function ofVms(campaign, sums) {
  const down = campaign.vms_down
    ? html`<b class="bad">${number(campaign.vms_down)} down</b>`
    : "none down";
  if (!sums) return down;
  const moved = Object.values(sums.moves_per_vm).reduce((all, each) => all + each, 0);
  const total = (/** @type {string} */ kind) =>
    sums.tenants.reduce(
      (/** @type {number} */ all, /** @type {any} */ each) => all + each[kind],
      0,
    );
  const minutes = (/** @type {number} */ seconds) => number(Math.round(seconds / 60));
  const planned = total("planned_down_seconds");
  const all = planned + total("unplanned_down_seconds");
  return html`${moved ? `${count(moved, "VM")} moved` : `${count(sums.vms, "VM")} in work`} ·
  ${down} · ${minutes(all)} VM minutes down, ${minutes(planned)} planned`;
}

/**
 * @param {any} campaign
 * @param {Record<string, number> | undefined} counts
 * @param {any} outlook
 * @param {any} sums
 */
export function progress(campaign, counts, outlook, sums) {
  /** @type {Record<string, number>} */
  const of = counts ?? {
    done: campaign.done,
    announced: campaign.in_flight,
    failed: campaign.failed.length,
    planned: campaign.waiting,
    skipped: campaign.skipped,
  };
  const running = (of.impacting ?? 0) + (of.recovering ?? 0);
  const announced = (of.announced ?? 0) + (of.ready ?? 0);
  const failed = of.failed ?? 0;
  // What the service expected before the last order is over.
  const eta = outlook?.state === campaign.state ? outlook.eta : null;
  const ends = time.at(campaign.ended ?? eta?.at);
  const window = outlook?.windows.find(
    (/** @type {any} */ each) => time.at(each.closes) > time.now(),
  );
  const closes = campaign.ended ? NaN : time.at(window?.closes);
  const isLate = ends > closes;
  const end = campaign.ended
    ? "ended"
    : Number.isNaN(ends) && eta?.unknown
      ? `ETA: ${eta.unknown}`
      : "ETA";
  return html`<section class="card" aria-label="Progress">
    <div class="kpis">
      <div><b>${number(of.done ?? 0)}</b>done</div>
      <div><b>${number(running)}</b>running</div>
      <div class=${failed ? "bad" : ""}><b>${number(failed)}</b>failed</div>
      <div><b>${number(announced)}</b>announced</div>
      <div><b>${number(of.planned ?? 0)}</b>left of ${number(campaign.hosts)}</div>
      <div class="eta ${Number.isNaN(ends) ? "hide-n" : ""}">
        <b
          class=${isLate ? "warn" : ""}
          title=${
            eta?.hosts ? `from the last ${count(eta.hosts, "host")}, ${eta.slots} at once` : ""
          }
          >${hourOf(ends)}</b
        >${end}${Number.isNaN(closes) ? "" : `, window to ${time.when(closes)}`}
      </div>
      <div class="wide">
        ${bar(
          [
            ["s-done", of.done ?? 0, "done"],
            ["s-impact", running, "running"],
            ["s-failed", failed, "failed"],
            ["s-noticed", announced, "announced"],
            ["s-gone", of.skipped ?? 0, "skipped"],
          ],
          campaign.hosts,
        )}
      </div>
      <div class="wide">
        ${of.skipped ? `${count(of.skipped, "host")} skipped · ` : ""}${
          campaign.deferred_count ? `${number(campaign.deferred_count)} deferred · ` : ""
        }${ofVms(campaign, sums)}${
          campaign.drift ? ` · ${count(campaign.drift, "new host")} of the fleet would match` : ""
        }
      </div>
    </div>
  </section>`;
}

/** Words for the budgets. @type {Record<string, string>} */
const BUDGETS = {
  "in-flight": "in flight",
  unavailable: "away",
  failures: "failed",
  "failures-in-a-row": "failed in a row",
  "vms-down": "VMs down",
};
/** Budgets that halt the campaign if they are exceeded. */
const HALTS = ["failures", "failures-in-a-row", "vms-down"];

/** @param {any} each */
const named = (each) =>
  each.subject ? (each.subject.split("=")[1] ?? each.subject) : (BUDGETS[each.kind] ?? each.kind);

/** @param {any} each A tolerance: one more than it allows halts the campaign. */
const tolerance = (each) =>
  html`<span class=${each.used ? "full" : ""}
    >${named(each)} <b>${number(each.used)}</b>, halts at ${number(each.most + 1)}</span
  >`;

/** @param {any} each */
const budget = (each) =>
  html`<span class=${each.full ? "full" : ""} title=${each.subject ?? ""}
    >${named(each)} <b>${number(each.used)}/${number(each.most)}</b>${
      each.grows ? `, growing to ${number(each.grows)}` : ""
    }${each.failed && !each.subject ? `, ${number(each.failed)} of them failed` : ""}</span
  >`;

/**
 * While a stage grows, its limit is the one that counts.
 * @param {any[]} found
 */
function grown(found) {
  const ramp = found.find((each) => each.kind === "ramp");
  return found
    .filter((each) => each !== ramp)
    .map((each) =>
      ramp && each.kind === "in-flight" && !each.subject
        ? { ...each, most: ramp.most, full: each.used >= ramp.most, grows: each.most }
        : each,
    );
}

/** Places of a label, such as racks, whose budgets are named one by one. */
const PLACES_MAX = 8;

/** Budgets of one label together: `c1` and `c2` of the label cluster. @param {any[]} found */
const byLabel = (found) => [
  ...groupedBy(found, (each) =>
    each.subject?.includes("=") ? each.subject.split("=")[0] : each.kind,
  ),
];

/** @param {[string, any[]]} group */
function limit([label, found]) {
  if (found.length <= PLACES_MAX) return found.map(budget);
  const full = found.filter((each) => each.full);
  const names = full.map((each) => each.subject.split("=")[1]).join(", ");
  return html`<span class=${full.length ? "full" : ""} title=${names}
    >${label}s full <b>${number(full.length)}</b> of ${number(found.length)} in use</span
  >`;
}

/** @param {any} campaign @param {any} outlook @param {any} capacity @param {any} sums */
export function waves(campaign, outlook, capacity, sums) {
  const fallback = { kind: "in-flight", subject: null, most: campaign.at_once };
  // What is in flight now is told with each change, the rest more rarely.
  const failed = campaign.failed.length;
  const used = campaign.in_flight + failed;
  const budgets = (outlook?.budgets ?? [fallback]).map((/** @type {any} */ each) =>
    each.kind === "in-flight" && !each.subject
      ? { ...each, used, failed, full: used >= each.most }
      : each,
  );
  const limits = budgets.filter((/** @type {any} */ each) => !HALTS.includes(each.kind));
  const halts = budgets.filter((/** @type {any} */ each) => HALTS.includes(each.kind));
  return html`<section class="card" aria-label="Stages and budgets">
    ${waveList(campaign, outlook?.stages, sums?.stages)}
    <div class="budget">${byLabel(grown(limits)).map(limit)}</div>
    <div class="budget">
      ${halts.map(tolerance)}${
        capacity ? html`<span class="hide-n">free VM slots: ${slots(capacity)}</span>` : nothing
      }
    </div>
  </section>`;
}

/** @param {any} capacity */
const slots = (capacity) =>
  places(capacity)
    .filter((each) => !each.unlimited)
    .map((each, index) => {
      const short = isShort(capacity, each);
      return html`${index ? " · " : ""}${each.name}
        <b class=${short ? "warn" : ""}>${number(each.free)}</b>${
          short ? ` (next needs ${needs(capacity, each)})` : ""
        }`;
    });

/** Windows and blackouts of the timeline. @param {any} outlook */
export const termsOf = (outlook) => ({
  windows: (outlook?.windows ?? []).map((/** @type {any} */ each) => [
    time.at(each.opens),
    time.at(each.closes),
  ]),
  blackouts: (outlook?.blackouts ?? []).map((/** @type {any} */ each) => ({
    name: each.name,
    from: time.at(each.begins),
    until: each.ends ? time.at(each.ends) : Infinity,
  })),
});
