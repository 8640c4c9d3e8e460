// The data of a page: the objects of the stream by topic, and lists that are fetched.
// Whatever changes calls `changed`, and the page is drawn once for all of it.

import { RECENT_SECONDS, Refused, get, isRefusal } from "./api.js";
import * as time from "./time.js";

/** Frames a second at most, for changes that the stream brings. */
const FRAME_MS = 250;
/** Entries of the history that are kept for the page. */
const HISTORY_MAX = 500;
/** The age of an answer, at most. */
const RECENT_MS = 1000 * RECENT_SECONDS;
/** Rows of hosts that are kept for the pages of campaigns: more than are in work at a time. */
const ROWS_MAX = 2000;
/** A list that follows the stream is fetched again so soon after the stream has begun. */
const READY_MS = 3000;
/** A list is fetched again after this time, even if nothing tells of a change. */
const OLD_MS = 60_000;
/** The same of a list that could not be read; after each failure it is twice as long. */
const AGAIN_MS = 5000;
/**
 * What a list watches that the stream continues: what happened before the stream began is in the
 * list only.
 */
export const READY = "ready";

/** The member of an object that is its ID, by topic. @type {Record<string, string>} */
const KEYS = {
  campaigns: "campaign",
  problems: "problem",
  operations: "operation",
  events: "EventId",
  hosts: "host",
  "campaign-hosts": "host",
  upcoming: "work",
  history: "id",
};

/** Objects of a topic that are kept; of others, all are. @type {Record<string, number>} */
const KEPT_MAX = { history: HISTORY_MAX, "campaign-hosts": ROWS_MAX };

/**
 * @typedef {{name: string, tenant: string | null, roles: string[], read_only: boolean,
 *   orders: string[], expires: string | null,
 *   identified_by?: string, now?: string, version?: string, features?: string[]}} Session
 */

export const state = {
  /** @type {Session | null} */
  session: null,
  /** Whether a login form is needed. */
  isOut: false,
  /** A version of the service that is not the one of this page. */
  newVersion: "",
  /**
   * The stream: `mode` is connecting, live, stale or off; `at` is the last message (0: none yet),
   * `begun` when this page began to wait, in the browser's ms.
   */
  link: { mode: "connecting", at: 0, begun: 0, retryAt: 0, why: "" },
  /** Whether all present objects have arrived. */
  isReady: false,
  /** What could not be done, until it is read. */
  failure: "",
};

/** For how long nothing has come, in ms. */
export const silence = () =>
  state.link.begun ? Date.now() - (state.link.at || state.link.begun) : 0;

/** When the stream told something last, by the server's clock. */
export const heardAt = () => state.link.at + time.now() - Date.now();

/** Who looks: a simulation has pages of its own. @returns {"tenant" | "simulator" | "operator"} */
export function kind() {
  if (state.session?.tenant) return "tenant";
  return state.session?.features?.includes("simulator") ? "simulator" : "operator";
}

/** @typedef {Record<string, Map<string, any>>} Topics */

/** @returns {Topics} */
const nothing = () => Object.fromEntries(Object.keys(KEYS).map((name) => [name, new Map()]));

let topics = nothing();
/** @type {Topics | null} What arrives before `ready`. */
let coming = null;

/** @param {string} name @returns {any[]} The objects of a topic. */
export const all = (name) => [...(topics[name]?.values() ?? [])];

/** @param {string} name @param {string} id */
export const one = (name, id) => topics[name]?.get(id);

/** The entries of the history that the stream has brought, the newest first. */
export const news = () => all("history").reverse();

/** @param {Topics} found The objects of another tab of this browser. */
export function take(found) {
  topics = { ...nothing(), ...found };
  coming = null;
  state.isReady = true;
  noteTopics([...Object.keys(KEYS), READY]);
}

/** The open campaign with an ID or a name. @param {string} name @returns {any} */
export const campaignNamed = (name) =>
  one("campaigns", name) ?? all("campaigns").find((each) => each.name === name && !each.ended);

/** The objects, for another tab of this browser. */
export const given = () => (state.isReady && !coming ? topics : null);

/** Everything is sent again: what is there stays until it has arrived, but for the history. */
export function begin() {
  coming = nothing();
}

/**
 * One message of the stream.
 * @param {string} topic
 * @param {any} body
 */
export function apply(topic, body) {
  if (topic === "reset") return begin();
  if (topic === "ready") {
    if (coming) topics = coming;
    coming = null;
    state.isReady = true;
    return noteTopics([...Object.keys(KEYS), READY]);
  }
  const key = KEYS[topic];
  const kept = (coming ?? topics)[topic];
  if (!key || !kept) return;
  const id = topic === "campaign-hosts" ? noted(body, kept) : (body[key] ?? body.name);
  if (isOver(topic, body)) kept.delete(id);
  else kept.set(id, body);
  if (kept.size > (KEPT_MAX[topic] ?? Infinity)) kept.delete(kept.keys().next().value ?? "");
  if (!coming) noteTopics([topic]);
}

/**
 * The key of a host of a campaign, with the time at which this browser heard of it: what was read
 * before is older. Those that changed last are the last ones.
 * @param {any} row @param {Map<string, any>} kept
 */
function noted(row, kept) {
  const key = `${row.campaign}/${row.host}`;
  row.heard ??= Date.now();
  kept.delete(key);
  return key;
}

/** @param {string} topic @param {any} body */
const isOver = (topic, body) =>
  topic === "events"
    ? body.EventStatus === "Removed"
    : topic !== "campaigns" && topic !== "history" && Boolean(body.ended);

// Drawing

/** @type {() => void} */
let draw = () => {};
let isPlanned = false;
let drawnAt = 0;

/** @type {() => void} */
let mark = () => {};

/**
 * @param {() => void} how
 * @param {() => void} whenHidden What is done instead while the tab is hidden: no frame comes then.
 */
export function drawBy(how, whenHidden) {
  draw = how;
  mark = whenHidden;
}

/**
 * Draw the page soon.
 * @param {{now?: boolean}} [how] `now` in the next frame, since a person waits for it.
 */
export function changed({ now: isNow = false } = {}) {
  if (isPlanned && !isNow) return;
  const pause = isNow ? 0 : Math.max(0, drawnAt + FRAME_MS - performance.now());
  isPlanned = true;
  setTimeout(
    () => (document.hidden ? frame(true) : requestAnimationFrame(() => frame(false))),
    pause,
  );
}

/** Draw the page before this call returns. */
export function drawNow() {
  isPlanned = true;
  frame(false);
}

/** @param {boolean} isHidden */
function frame(isHidden) {
  if (!isPlanned) return;
  isPlanned = false;
  drawnAt = performance.now();
  if (isHidden) return mark();
  draw();
  for (const call of waiting.splice(0)) call();
}

document.addEventListener("visibilitychange", () => {
  // A frame that was asked for before does not come while the tab is hidden.
  isPlanned = false;
  changed({ now: true });
});

/** @type {(() => void)[]} */
const waiting = [];
/** @param {() => void} call Called once, after the next drawing: such as to set the focus. */
export const afterDraw = (call) => waiting.push(call);

// Lists that are fetched

/**
 * @typedef {object} Resource
 * @property {any} value The latest answer, or undefined.
 * @property {Error | null} error Why there is no newer answer.
 * @property {number} since When the first request was sent, in the browser's ms.
 * @property {number} at What the value shows is not older than this, in the browser's ms.
 * @property {() => void} refresh
 * @property {() => void} hurry Fetch it without a pause.
 * @property {(names: string[]) => void} note Topics of which something has changed.
 */

/** @type {Set<Resource>} */
let used = new Set();

/**
 * A list of the API that follows the stream: it is fetched again if one of the topics has
 * changed, but never more often than each `pause` ms, and only while the page uses it.
 * @param {string | (() => Promise<any>)} from A path, or what fetches.
 * @param {{topics?: string[], pause?: number | ((value: any) => number)}} [how] `pause` can depend
 *   on the latest answer.
 * @returns {Resource}
 */
export function resource(from, { topics: watched = ["history"], pause = 3000 } = {}) {
  let isBusy = false;
  let isDue = false;
  let askedAt = -Infinity;
  let changedAt = -Infinity;
  let isBegun = false;
  let failures = 0;
  let timer = 0;
  const ask = typeof from === "string" ? () => get(from) : from;
  const again = () => Math.min(OLD_MS, AGAIN_MS * 2 ** (failures - 1));
  function pauseNow() {
    const wanted = typeof pause === "number" ? pause : pause(self.value);
    return Math.max(isBegun ? Math.min(wanted, READY_MS) : wanted, failures && again());
  }

  /** @type {Resource} */
  const self = {
    value: undefined,
    error: null,
    since: 0,
    at: 0,
    hurry() {
      askedAt = -Infinity;
      self.refresh();
    },
    refresh() {
      self.since ||= Date.now();
      isDue = true;
      clearTimeout(timer);
      if (isBusy) return;
      const left = askedAt + pauseNow() - Date.now();
      if (left > 0 && (self.value !== undefined || self.error)) timer = setTimeout(fetchNow, left);
      else fetchNow();
    },
    note(names) {
      const isOld = Date.now() - askedAt > (failures ? again() : OLD_MS);
      const isChanged = names.some((name) => watched.includes(name));
      if (isChanged) changedAt = Date.now();
      // What happened between the answer and the beginning of the stream is in neither.
      if (isChanged && names.includes(READY)) isBegun = true;
      if (isOld || isChanged) self.refresh();
    },
  };

  async function fetchNow() {
    if (isBusy || !used.has(self) || state.isOut || document.visibilityState === "hidden") return;
    isBusy = true;
    isDue = false;
    isBegun = false;
    askedAt = Date.now();
    // The answer can be from before the latest change.
    const isRecent = changedAt > askedAt - RECENT_MS;
    const isFirst = self.value === undefined;
    try {
      self.value = await ask();
      self.at = askedAt - RECENT_MS;
      self.error = null;
      failures = 0;
    } catch (error) {
      self.error = /** @type {Error} */ (error);
      failures = isRefusal(error) ? 0 : failures + 1;
      // What is gone must not stay on the page.
      if (error instanceof Refused && [403, 404].includes(error.status)) self.value = undefined;
    }
    isBusy = false;
    // A person waits for what was not there.
    changed({ now: isFirst });
    if (isDue || isRecent) self.refresh();
  }
  return self;
}

/**
 * What is made for the present key, until it is asked for with another one: such as the list of
 * what one looks at.
 * @template {any[]} Key
 * @template Made
 * @param {(...key: Key) => Made} make
 * @returns {(...key: Key) => Made}
 */
export function latest(make) {
  let known = "";
  /** @type {Made} */
  let made;
  return (...key) => {
    const text = JSON.stringify(key);
    if (text !== known) made = make(...key);
    known = text;
    return made;
  };
}

/** @param {Resource[]} found The lists of the page that is shown now. */
export function use(found) {
  const before = used;
  used = new Set(found);
  for (const each of used) if (!before.has(each)) each.refresh();
}

/** Fetch all lists of the page again. */
export function refreshAll() {
  for (const each of used) each.hurry();
}

/** To be called each second: lists become old also while nothing changes. */
export const lookAtLists = () => noteTopics([]);

/** @param {string[]} names */
function noteTopics(names) {
  // A service that is away is asked by the stream only, which comes back with all changes.
  const isAway = state.link.mode === "stale" && !state.link.why;
  if (!isAway) for (const each of used) each.note(names);
  changed();
}
