// One campaign: head, progress, waves and budgets, the timeline, a host's drawer, who is
// waited for, and what has happened.

import { html, nothing } from "../lit.js";
import { campaignRows, campaignTree } from "../campaign_hosts.js";
import { about, changes } from "../changes.js";
import { afterDraw, all, changed, one, resource, state } from "../store.js";
import { feed } from "../feed.js";
import { address, empty, errorNote, loading, mayOrder } from "../parts.js";
import { hold, newer } from "../hold.js";
import { asked, look } from "../query.js";
import * as orders from "../orders.js";
import { count, number } from "../text.js";
import * as time from "../time.js";
import * as timeline from "../timeline.js";
import { isOpen } from "../timeline_open.js";
import { opensFirst } from "../timeline_rows.js";
import { head, progress, waves, termsOf } from "./campaign_head.js";
import { hostTable } from "./campaign_table.js";
import { isOnPaper } from "../printing.js";
import { waitsTable } from "./waits_table.js";

/** Clusters up to this size are fetched as a whole: larger ones by rack. */
const CLUSTER_HOSTS_MAX = 400;
/** The ID of a campaign, or of the rollout that implies one. */
const IS_ID = /^(ca|ro)-/;
/** What asks for the rows of all hosts. */
const EVERY_HOST = "{}";
const LINES = 8;
/** Main changes that are read: several can be one line. */
const LINES_READ = 40;
/** Changes of a campaign can come some time after its end, such as cordons that are removed. */
const AFTER_MS = 24 * 3_600_000;
/** @type {Record<string, string>} */
const STATES = { running: "impacting,recovering", held: "ready", failed: "failed" };

let id = "";
/** @type {Record<string, import("../store.js").Resource>} */
let lists = {};

/** @param {string} key @param {() => import("../store.js").Resource} make */
const list = (key, make) => (lists[key] ??= make());

const path = (/** @type {string} */ rest) => `/v1/campaigns/${encodeURIComponent(id)}${rest}`;
const self = () => list("self", () => resource(path(""), { topics: ["campaigns"] }));
/** @type {import("../campaign_hosts.js").Tree | null} */
let whole = null;
const wholeTree = () => (whole ??= campaignTree(campaign()?.campaign ?? id));
const tree = () => wholeTree().value();
const outlook = () =>
  list("outlook", () => resource(path("/outlook"), { topics: ["campaigns"], pause: 10_000 }));
const waits = () =>
  list("waits", () =>
    resource(`/v1/waits?rollout=${encodeURIComponent(campaign().rollout)}&limit=200`),
  );
/** @type {ReturnType<typeof changes> | null} */
let activity = null;
/** Its main changes. */
function past() {
  const { rollout, campaign: name, ended } = campaign();
  const query = { operation: rollout, main: "true", ...(ended && { until: later(ended) }) };
  return (activity ??= changes(
    query,
    LINES_READ,
    (entry) => about("request", rollout)(entry) || about("campaign", name)(entry),
  ));
}
/** The service need not search what came long after the end. @param {string} ended */
const later = (ended) => new Date(time.at(ended) + AFTER_MS).toISOString();
/** The sums of its report: to add them up takes a second for 10,000 hosts. */
const sums = () =>
  list("sums", () => resource(path("/sums"), { topics: ["campaigns"], pause: 30_000 }));
const capacity = () => list("capacity", () => resource("/v1/capacity", { pause: 10_000 }));
const clusterTree = (/** @type {string} */ cluster) =>
  list(`tree ${cluster}`, () =>
    resource(path(`/tree?cluster=${encodeURIComponent(cluster)}`), {
      topics: ["history"],
      pause: 3000,
    }),
  );
/**
 * The rows that were asked for, by the place or state of their hosts, as JSON.
 * @type {Map<string, import("../campaign_hosts.js").Rows>}
 */
let parts = new Map();
function hosts(/** @type {string} */ which) {
  let found = parts.get(which);
  if (!found) parts.set(which, (found = campaignRows(campaign().campaign, JSON.parse(which))));
  return found;
}

/** The checks of the service, while one of them holds the campaign. */
const checks = () => list("checks", () => resource("/v1/checks", { topics: ["campaigns"] }));
const isHaltedByCheck = () => campaign()?.halted?.cause === "check";
const answers = () =>
  isHaltedByCheck()
    ? (checks().value?.checks ?? []).filter((/** @type {any} */ each) =>
        campaign().checks.includes(each.name),
      )
    : [];

const campaign = () =>
  one("campaigns", id) ?? all("campaigns").find((each) => each.name === id) ?? self().value;

/** @param {string} cluster @returns {any[]} */
function racksOf(cluster) {
  const { racks, racks_left_out: left } = tree();
  if (!left) return racks.filter((/** @type {any} */ each) => each.cluster === cluster);
  return openClusters().includes(cluster) ? (clusterTree(cluster).value?.racks ?? []) : [];
}

/** @returns {any[]} */
const clusters = () => tree()?.clusters ?? [];
const openClusters = () =>
  clusters()
    .filter((each) => isOpen(`c:${each.cluster}`, opensFirst(tree(), each)))
    .map((each) => each.cluster);

/** @param {string} cluster @param {string} rack */
const hostQuery = (cluster, rack) => {
  const size = clusters().find((each) => each.cluster === cluster)?.hosts ?? 0;
  return JSON.stringify(size <= CLUSTER_HOSTS_MAX ? { cluster } : { cluster, rack });
};

/** Racks that are open now, as the last drawing has asked for them. @type {Set<string>} */
let wanted = new Set();

/** @param {string} cluster @param {string} rack @returns {any[] | undefined} */
function hostsOf(cluster, rack) {
  const query = hostQuery(cluster, rack);
  wanted.add(query);
  return hosts(query)
    .rows()
    ?.filter((/** @type {any} */ each) => each.rack === rack);
}

/** The drawer, from when the first host is chosen. @type {typeof import("../drawer.js") | null} */
let side = null;
/** @type {Promise<void> | null} */
let coming = null;

function loadSide() {
  coming ??= import("../drawer.js").then(
    (found) => {
      side = found;
      changed({ now: true });
    },
    () => {
      state.failure = "This part of the page cannot be loaded: reload the page";
      changed();
    },
  );
  return coming;
}

/** @param {string} host What is known of a host; null while the drawer is loaded. */
function detailOf(host) {
  if (!side) void loadSide();
  return side && side.detail(campaign().campaign, host);
}

/** @param {string} host @param {boolean} [isByKey] */
async function select(host, isByKey) {
  look({ host });
  if (!host || !(isByKey || matchMedia("(max-width: 1100px)").matches)) return;
  await loadSide();
  afterDraw(() => document.getElementById("drawer")?.focus());
}

function close() {
  const was = asked("host");
  look({ host: "" });
  timeline.focusHost(was);
}

const NARROW = matchMedia("(max-width: 760px)");

/** Whether the hosts are a table: chosen, on a narrow screen, and always on paper. */
const asTable = () => isOnPaper() || (asked("as") || (NARROW.matches ? "table" : "")) === "table";

/** The hosts that have been read so far. */
const known = () => {
  const read = [...parts.values()].flatMap((each) => each.rows() ?? []);
  const found = new Map(read.map((each) => [each.host, each]));
  return [...found.values()].sort(
    (one, other) => one.stage - other.stage || one.position - other.position,
  );
};

/** What can be done with all hosts of the filter Failed. @param {Record<string, number>} counts */
const bulk = ({ failed = 0 }) =>
  failed && !campaign().ended && mayOrder("campaign-retry")
    ? html`<div class="bulk">
        <b>${count(failed, "failed host")}</b>
        <button @click=${() => orders.retry(campaign(), [])}>Retry all ${number(failed)}…</button>
      </div>`
    : nothing;

function hostsCard() {
  const value = tree();
  const { error } = wholeTree().list;
  if (!value) return html`<section class="card tl">${error ? errorNote(error) : loading}</section>`;
  const filter = STATES[asked("show")];
  const before = wanted;
  wanted = new Set();
  const inState = JSON.stringify({ state: filter });
  const found = filter ? (hosts(inState).rows() ?? []) : null;
  if (filter) wanted.add(inState);
  const isTable = asTable();
  if (isTable && !filter && !isOnPaper()) wanted.add(EVERY_HOST);
  const body = isTable
    ? hostTable(found ?? hosts(EVERY_HOST).rows() ?? known(), value.hosts, select, NARROW.matches)
    : timeline.timeline({
        tree: value,
        racksOf,
        hostsOf,
        found,
        terms: termsOf(outlook().value),
        selected: asked("host"),
        select,
      });
  // What was opened just now is fetched with the next drawing.
  if ([...wanted].some((each) => !before.has(each))) changed({ now: true });
  return html`<section class="card tl" aria-labelledby="tlh">
    ${timeline.tools(value.counts, isTable)}
    ${asked("show") === "failed" ? bulk(value.counts) : nothing}${body}
  </section>`;
}

function dock() {
  const found = campaign();
  const mine = past().entries();
  const { rows: lines } = hold("campaign-lines", mine, (each) => each.id, id);
  return html`<div class="dock">
    <section class="card" aria-labelledby="wh">
      <header>
        <h2 id="wh">Waiting for approval</h2>
        <span class="soft">longest wait first</span>
      </header>
      ${
        waits().value?.waits.length
          ? waitsTable(waits().value.waits, true, campaign().rollout)
          : empty("No tenant is waited for", "Approvals of tenants that are missing appear here.")
      }
    </section>
    <section class="card" aria-labelledby="fh">
      <header>
        <h2 id="fh">Activity</h2>
        <span class="soft">this campaign</span>${newer("campaign-lines")}<span class="grow"></span
        ><a href=${address("history", ["operation", found.rollout], ["since", "60d"])}>all</a>
      </header>
      ${
        past().list.value || mine.length
          ? html`<div id="campaign-lines">${feed(lines, LINES)}</div>`
          : loading
      }
    </section>
  </div>`;
}

function view() {
  const found = campaign();
  if (!found) {
    const { error } = self();
    return error
      ? html`<div class="card">
          ${empty("There is no such campaign", "It may have been removed.")}
        </div>`
      : html`<div class="card">${loading}</div>`;
  }
  const host = asked("host");
  reveal(host);
  return html`${head(found, outlook().value, answers(), checks().hurry)}
    <div class="sum">
      ${progress(
        found,
        tree()?.counts,
        outlook().value,
        sums().value,
      )}${waves(found, outlook().value, capacity().value, sums().value)}
    </div>
    <div class="two ${host ? "" : "alone"}">
      <div>${hostsCard()}${dock()}</div>
      ${host && side ? side.drawer(found, host, close) : nothing}
    </div>`;
}

/** The revision of the campaign for which its outlook was fetched at once. */
let hurried = "";

/** The host of the address whose row has been opened. */
let revealed = "";

/** A link with a host shows its row: all that hides it opens, once. @param {string} name */
function reveal(name) {
  const host = name && campaign() ? detailOf(name)?.value : null;
  if (!host || revealed === name) return;
  revealed = name;
  afterDraw(() => timeline.reveal(host));
}

/** @param {string} state */
const nextIn = (state) => timeline.next((row) => row.host?.state === state);

const keys = {
  f: () => nextIn("failed"),
  h: () => {
    const holder = timeline.focusedRow()?.holder;
    if (holder) timeline.focusHost(holder);
    else nextIn("ready");
  },
  "+": () => timeline.zoom(-1),
  "-": () => timeline.zoom(1),
  "−": () => timeline.zoom(1),
  0: () => timeline.pan(0),
  Escape: () => asked("host") && close(),
  "!": () =>
    campaign() && !campaign().ended && mayOrder("campaign-halt") && orders.halt(campaign()),
};

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => {
    const found = campaign();
    return found
      ? `${found.name}: ${found.state.toLowerCase()}, ${found.done} of ${found.hosts}`
      : "Campaign";
  },
  view,
  keys,
  uses([name]) {
    if (name !== id) {
      id = name ?? "";
      lists = {};
      whole = null;
      parts = new Map();
      activity = null;
      revealed = "";
      timeline.reset();
    }
    const found = campaign();
    // A name that is not known is asked for alone: it may not exist.
    if (!found && !IS_ID.test(id)) return [self()];
    // What is looked at first is asked for first: the others delay it.
    if (!found || (!tree() && !wholeTree().list.error)) return [self(), wholeTree().list];
    const { value } = outlook();
    if (value && value.state !== found.state && hurried !== found.revision) {
      hurried = found.revision;
      outlook().hurry();
    }
    const opened = [...wanted].map((which) => hosts(which).list);
    const racks = tree()?.racks_left_out ? openClusters().map(clusterTree) : [];
    const shown = asked("host") ? detailOf(asked("host")) : null;
    return [
      self(),
      wholeTree().list,
      outlook(),
      capacity(),
      sums(),
      waits(),
      past().list,
      ...(isHaltedByCheck() ? [checks()] : []),
      ...opened,
      ...racks,
      ...(shown ? [shown] : []),
    ];
  },
};
