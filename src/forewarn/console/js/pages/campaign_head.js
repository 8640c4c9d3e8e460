// The upper part of a campaign: name and verbs, counts, waves and budgets.

import { html, nothing } from "../lit.js";
import { address, bar, campaignPill, marked, mayOrder } from "../parts.js";
import * as orders from "../orders.js";
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
    in work ${campaign.in_flight === 1 ? "goes" : "go"} on, nothing starts`;
  return campaign.waits_for ? html`Waits: ${marked(campaign.waits_for)}` : nothing;
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
  return html`${
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
    mayOrder("campaign-resume")
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
      <a class="btn" href=${address(`campaigns/${encodeURIComponent(campaign.campaign)}/report`)}
        >Report</a
      >${checkAgain(failing, whenAsked)}${verbs(campaign, outlook, failing)}
    </div>
  </div>`;
}

/** @param {any} campaign @param {Record<string, number> | undefined} counts @param {any} outlook */
export function progress(campaign, counts, outlook) {
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
          >${time.when(ends)}</b
        >${end}${Number.isNaN(closes) ? "" : `, window closes ${time.when(closes)}`}
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
        }${
          campaign.vms_down
            ? html`<b class="bad">${count(campaign.vms_down, "VM")} down</b>`
            : "no VM of it is down after its work"
        }${campaign.drift ? ` · ${count(campaign.drift, "new host")} of the fleet would match` : ""}
      </div>
    </div>
  </section>`;
}

/** Words for the budgets. @type {Record<string, string>} */
const BUDGETS = {
  "in-flight": "in flight",
  ramp: "growing, now",
  unavailable: "away",
  failures: "failures",
  "failures-in-a-row": "in a row",
  "vms-down": "VMs down",
};
/** Budgets that halt the campaign if they are exceeded. */
const HALTS = ["failures", "failures-in-a-row", "vms-down"];

/** @param {any} each */
function budget(each) {
  const name = each.subject
    ? (each.subject.split("=")[1] ?? each.subject)
    : (BUDGETS[each.kind] ?? each.kind);
  const halts = HALTS.includes(each.kind);
  const form = halts ? (each.used ? "full" : "") : each.full ? "full" : "";
  return html`<span class=${form} title=${each.subject ?? ""}
    >${name}
    <b>${number(each.used)}/${number(each.most)}</b
    >${each.failed && !halts ? ` (${each.failed} failed)` : ""}</span
  >`;
}

/** Places of a label, such as racks, whose budgets are named one by one. */
const PLACES_MAX = 8;

/** Budgets of one label together: `c1` and `c2` of the label cluster. @param {any[]} found */
function byLabel(found) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const each of found) {
    const label = each.subject?.includes("=") ? each.subject.split("=")[0] : each.kind;
    groups.set(label, [...(groups.get(label) ?? []), each]);
  }
  return [...groups];
}

/** @param {[string, any[]]} group */
function limit([label, found]) {
  if (found.length <= PLACES_MAX) return found.map(budget);
  const full = found.filter((each) => each.full);
  const names = full.map((each) => each.subject.split("=")[1]).join(", ");
  return html`<span class=${full.length ? "full" : ""} title=${names}
    >${label}s full <b>${number(full.length)}</b> of ${number(found.length)} in use</span
  >`;
}

/** @param {any} campaign @param {any} outlook @param {any} capacity */
export function waves(campaign, outlook, capacity) {
  // What is in flight now is told with each change, the rest more rarely.
  const { in_flight: used, at_once: most } = campaign;
  const inFlight = { kind: "in-flight", subject: null, used, most, full: used >= most, failed: 0 };
  const budgets = outlook?.budgets.map((/** @type {any} */ each) =>
    each.kind === "in-flight" && !each.subject ? { ...each, used, full: used >= each.most } : each,
  ) ?? [inFlight];
  const limits = budgets.filter((/** @type {any} */ each) => !HALTS.includes(each.kind));
  const halts = budgets.filter((/** @type {any} */ each) => HALTS.includes(each.kind));
  return html`<section class="card" aria-label="Stages and budgets">
    ${waveList(campaign, outlook?.stages)}
    <div class="budget">${byLabel(limits).map(limit)}</div>
    <div class="budget">
      ${halts.length ? html`${halts.map(budget)}<span>more than that halts it</span>` : nothing}${
        capacity ? html`<span class="hide-n">free VM slots: ${slots(capacity)}</span>` : nothing
      }
    </div>
  </section>`;
}

/** @param {any} capacity */
function slots(capacity) {
  const needs = Math.max(0, ...capacity.next_hosts.map((/** @type {any} */ each) => each.needs));
  return (capacity.clusters ?? capacity.zones).map(
    (/** @type {any} */ each, /** @type {number} */ index) =>
      html`${index ? " · " : ""}${each.cluster ?? (each.zone ? `zone ${each.zone}` : "")}
        <b class=${needs && each.free < 2 * needs ? "warn" : ""}>${number(each.free)}</b>${
          needs && each.free < 2 * needs ? ` (next needs ${needs})` : ""
        }`,
  );
}

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
