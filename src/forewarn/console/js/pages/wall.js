// The wall: read from five metres, without touching anything. It shows one campaign at a
// time, and what needs a person.

import { html, nothing } from "../lit.js";
import { campaignRows, campaignTree } from "../campaign_hosts.js";
import { all, heardAt, one, resource, silence, state } from "../store.js";
import { approvedVms, approvedWhat, grouped, isOfToken, subjects, whoOf } from "../feed.js";
import { bar, campaignPill, hatch, hourOf } from "../parts.js";
import { number, some } from "../text.js";
import * as time from "../time.js";
import { main } from "./latest.js";
import { fleetMap, map } from "./wall_map.js";
import { says } from "./wall_says.js";

/** Without news for this long, nobody may take the wall for true. */
const LOST_MS = 30_000;
/** Each campaign is shown for this long, if there are several. */
const TURN_MS = 30_000;
/** Hosts in work that are read of a campaign. */
const RUNNING_MAX = 20;
/** Lines of the last changes. */
const TICKS = 4;

let fixed = "";
/** @type {Record<string, import("../store.js").Resource>} */
let lists = {};
/** @type {any} */
let lock = null;

/** @param {string} key @param {() => import("../store.js").Resource} make */
const list = (key, make) => (lists[key] ??= make());
const waits = () =>
  list("waits", () => resource("/v1/waits?limit=20", { topics: ["history", "problems"] }));
const overview = () =>
  list("overview", () =>
    resource("/v1/fleet/overview", { topics: ["history", "problems"], pause: 5000 }),
  );
const capacity = () =>
  list("capacity", () =>
    resource("/v1/capacity", { topics: ["history", "problems"], pause: 5000 }),
  );

/** @param {string} id @param {string} rest @param {number} pause */
const of = (id, rest, pause) =>
  list(id + rest, () =>
    resource(`/v1/campaigns/${encodeURIComponent(id)}${rest}`, {
      topics: ["history", "campaigns"],
      pause,
    }),
  );
/** @type {Record<string, import("../campaign_hosts.js").Tree>} */
let trees = {};
const tree = (/** @type {string} */ id) => (trees[id] ??= campaignTree(id));
const outlook = (/** @type {string} */ id) => of(id, "/outlook", 10_000);
/** @type {Record<string, import("../campaign_hosts.js").Rows>} */
let rows = {};
const running = (/** @type {string} */ id) =>
  (rows[id] ??= campaignRows(id, { state: "impacting,recovering" }, RUNNING_MAX));
const self = () => of(fixed, "", 5000);

/** The campaign whose turn it is. */
function campaign() {
  if (fixed)
    return (
      one("campaigns", fixed) ??
      all("campaigns").find((each) => each.name === fixed) ??
      self().value
    );
  const open = all("campaigns")
    .filter((each) => !each.ended)
    .sort((one, other) => (one.created < other.created ? -1 : 1));
  // It stays where something is down.
  const bad = open.find((each) => each.vms_down);
  // One that is paused or halted has its turn only if none runs.
  const running = open.filter((each) => each.state === "Running");
  const shown = running.length ? running : open;
  return bad ?? shown[Math.floor(time.now() / TURN_MS) % Math.max(1, shown.length)];
}

/** The end of the window that is open or opens next; NaN: there is none. @param {any} terms */
const closing = (terms) =>
  time.at(
    terms?.windows.find((/** @type {any} */ each) => time.at(each.closes) > time.now())?.closes,
  );

/** @param {any} each @param {any} terms */
function where(each, terms) {
  const closes = each.ended ? NaN : closing(terms);
  const stage =
    each.stages.length > 1 && !each.ended ? `stage ${each.stage} of ${each.stages.length}` : "";
  return [stage, Number.isNaN(closes) ? "" : `window to ${time.when(closes)}`]
    .filter(Boolean)
    .join(" · ");
}

/** VMs that are down unplanned; before the stream has told, nobody knows. */
function downCell() {
  if (!state.isReady) return html`<div><b>–</b>VMs down</div>`;
  const down = all("problems")
    .filter((problem) => problem.kind === "vm-down")
    .flatMap((problem) => problem.vms).length;
  return html`<div class=${down ? "bad" : ""}>
    <b>${number(down)}</b>${down === 1 ? "VM" : "VMs"} down
  </div>`;
}

/** The failed host that halts the campaign. @param {any} terms */
function haltsAt(terms) {
  const found = terms?.budgets.find((/** @type {any} */ each) => each.kind === "failures");
  return found ? `, at ${number(found.most + 1)} it halts` : "";
}

/** @param {any} each @param {Record<string, number>} counts @param {any} terms */
function figures(each, counts, terms) {
  const work = (counts.impacting ?? 0) + (counts.recovering ?? 0);
  const failed = counts.failed ?? 0;
  const announced = (counts.announced ?? 0) + (counts.ready ?? 0);
  const ends = time.at(each.ended ?? terms?.eta.at);
  const spare = closing(terms) - ends;
  const word = each.ended
    ? "ended"
    : Number.isNaN(spare)
      ? "ETA"
      : spare < 0
        ? `ETA, ${time.roughly(-spare)} too late`
        : `ETA, ${time.roughly(spare)} to spare`;
  return html`<div class="big">
    <div><b>${number(counts.done ?? 0)}</b>done of ${number(each.hosts)}</div>
    <div class=${work ? "run" : ""}><b>${number(work)}</b>running, ${number(each.at_once)} may</div>
    <div class=${failed ? "bad" : ""}><b>${number(failed)}</b>failed${haltsAt(terms)}</div>
    <div><b>${number(counts.planned ?? 0)}</b>left, ${number(announced)} announced</div>
    ${downCell()}
    <div class="eta">
      <b class=${spare < 0 ? "warn" : ""}>${hourOf(ends)}</b
      >${Number.isNaN(ends) ? `no ETA: ${terms?.eta.unknown ?? "not known yet"}` : word}
    </div>
  </div>`;
}

/** The figures of the fleet, while no campaign runs. */
function fleet() {
  const isKnown = capacity().value !== undefined;
  const sum = (/** @type {string} */ key) =>
    (capacity().value?.zones ?? []).reduce(
      (/** @type {number} */ all, /** @type {any} */ each) => all + (each[key] ?? 0),
      0,
    );
  const shown = (/** @type {number} */ value) => (isKnown ? number(value) : "–");
  return html`<div class="big">
    <div><b>${shown(sum("hosts") - sum("down"))}</b>hosts up</div>
    <div class=${sum("down") ? "bad" : ""}><b>${shown(sum("down"))}</b>hosts down</div>
    <div class=${sum("in_work") ? "run" : ""}><b>${shown(sum("in_work"))}</b>working</div>
    ${downCell()}
    <div><b>${overview().value ? number(overview().value.vms) : "–"}</b>VMs</div>
    <div></div>
  </div>`;
}

/** Kinds of actors that the wall does not name. */
const BY_ITSELF = ["driver", "clock", "policy"];

/** @param {any[]} group Changes in a few words. */
function tick(group) {
  const entry = group[0];
  const approved = approvedVms(group);
  if (approved)
    return html`<span
      ><b>${time.second(time.at(entry.at))}</b> ${whoOf(group)} ${approvedWhat(group)}
      ${some(approved, 1)}</span
    >`;
  const names =
    ["host", "vm", "campaign"].map((kind) => subjects(entry, kind)).find((each) => each.length) ??
    [];
  return html`<span
    ><b>${time.second(time.at(entry.at))}</b> ${some(names, 1)}
    ${["operation", "host", "vm"].includes(entry.about) ? entry.what_shortly : entry.what}
    ${BY_ITSELF.includes(entry.actor_kind) ? nothing : `by ${entry.actor}`}</span
  >`;
}

/** Whether a change is of hosts and VMs: nobody needs to see tokens there. @param {any} entry */
const isOfRoom = (entry) => !isOfToken(entry);

/** @param {number} age */
const lost = (age) =>
  html`<div class="lost">
    <span class="vh" role="alert">No news: what is shown can be old.</span
    ><b>No news for ${time.roughly(age)}</b
    ><span
      >${
        state.link.at
          ? `What is shown is of ${time.second(heardAt())}`
          : "Nothing has come since the wall was opened"
      }.
      ${state.link.why || "Reconnecting."}</span
    >
  </div>`;

function view() {
  const each = campaign();
  const grown = each && tree(each.campaign).value();
  const terms = each && outlook(each.campaign).value;
  const counts =
    grown?.counts ??
    (each
      ? {
          done: each.done,
          planned: each.waiting,
          announced: each.in_flight,
          failed: each.failed.length,
        }
      : {});
  const age = silence();
  const isLost = age > LOST_MS;
  const work = (counts.impacting ?? 0) + (counts.recovering ?? 0);
  const shares = /** @type {[string, number, string][]} */ ([
    ["s-done", counts.done ?? 0, "done"],
    ["s-impact", work, "running"],
    ["s-failed", counts.failed ?? 0, "failed"],
    ["s-held", counts.ready ?? 0, "held"],
    ["s-noticed", counts.announced ?? 0, "announced"],
  ]);
  return html`${hatch}
    <main id="m" class="wall ${isLost ? "gone" : ""}">
      ${isLost ? lost(age) : nothing}
      <div class="row1">
        <h1>${each ? each.name : "Fleet"}</h1>
        ${each ? campaignPill(each) : nothing}<span class="soft"
          >${each ? where(each, terms) : "no campaign runs"}</span
        ><span class="grow"></span>
        <span class="live ${state.link.mode}"
          ><i class=${state.link.mode === "live" ? "pulse" : ""}></i>${state.link.mode}</span
        ><span class="clk"
          >${time.minute(time.now())}<span class="soft"> ${time.zoneName()}</span></span
        >
      </div>
      <div>${each ? figures(each, counts, terms) : fleet()}</div>
      <div class="grid2">
        <div class="stack">
          ${each ? bar(shares, each.hosts) : nothing}${
            grown ? map(grown) : each ? nothing : fleetMap(overview().value)
          }
        </div>
        ${says(each, {
          waits: waits().value,
          capacity: capacity().value,
          terms,
          hosts: each ? (running(each.campaign).rows() ?? []) : [],
        })}
      </div>
      <div class="tick">${grouped(main.entries().filter(isOfRoom)).slice(0, TICKS).map(tick)}</div>
    </main>`;
}

async function wake() {
  try {
    if (document.visibilityState === "visible")
      lock = await /** @type {any} */ (navigator).wakeLock?.request("screen");
  } catch {
    // The device refuses, such as with an empty battery: the wall only becomes dark.
  }
}

/** @param {string[]} params */
function enter([id]) {
  fixed = id ?? "";
  lists = {};
  trees = {};
  rows = {};
  document.documentElement.dataset.theme = "dark";
  document.addEventListener("visibilitychange", wake);
  void wake();
}

function leave() {
  delete document.documentElement.dataset.theme;
  document.removeEventListener("visibilitychange", wake);
  void lock?.release?.();
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => `wall: ${campaign()?.name ?? "fleet"}`,
  view,
  enter,
  leave,
  isBare: true,
  uses() {
    const each = campaign();
    const mine = each
      ? [tree(each.campaign).list, outlook(each.campaign), running(each.campaign).list]
      : [overview()];
    return [waits(), capacity(), main.list, ...mine, ...(fixed ? [self()] : [])];
  },
};
