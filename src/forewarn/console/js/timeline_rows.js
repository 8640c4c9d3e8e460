// The rows of the timeline, as values: cluster › rack › host, and what folds into one row.

import { count } from "./text.js";
import * as time from "./time.js";
import { FORMS, LANES_MAX, united, workOf } from "./timeline_merge.js";

/** From so many hosts in one state on, a rack shows them as one row. */
const FOLD_MIN = 3;
export { FORMS };

/**
 * @typedef {object} Histogram
 * @property {number[]} busy Hosts in work in each step.
 * @property {number} most The most of all clusters, so that their heights compare.
 * @property {number} from
 * @property {number} until
 */

/** @typedef {[string, number, number]} Bar Class, beginning and end in ms; NaN: it goes on. */

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {"cluster" | "rack" | "fold" | "host"} kind
 * @property {number} level
 * @property {string} name
 * @property {{text: string, form: string}[]} words The text next to the name.
 * @property {string} [more] A second line.
 * @property {Bar[][]} lanes
 * @property {Histogram} [work] Hosts in work over time, instead of lanes.
 * @property {boolean} [isOpen] Undefined: it has nothing to open.
 * @property {any} [host] The host, as the service tells it.
 * @property {string} [holder] The host that holds it, while it is ready.
 * @property {string} [waitsFor] The host that it waits for, in any state.
 * @property {string} [fact] What stands right of its bars.
 * @property {string} spoken The same in words.
 */

/** @param {string} name @param {string} whole */
const within = (name, whole) =>
  whole && name.startsWith(`${whole}-`) ? name.slice(whole.length + 1) : name || "–";

/** @param {Record<string, number>} counts */
const busy = (counts) => (counts.impacting ?? 0) + (counts.recovering ?? 0);

/** @param {Record<string, number>} counts */
function summary(counts) {
  const found = [];
  if (busy(counts)) found.push({ text: `${busy(counts)} running`, form: "" });
  if (counts.ready) found.push({ text: `${counts.ready} held`, form: "warn" });
  if (counts.failed) found.push({ text: `${counts.failed} failed`, form: "bad" });
  if (counts.announced) found.push({ text: `${counts.announced} announced`, form: "" });
  return found;
}

/** @param {any[]} lane @returns {Bar[]} */
const bars = (lane) =>
  lane.map(([state, from, until]) => [FORMS[state] ?? "s-gone", time.at(from), time.at(until)]);

/** @param {any} rack */
const urgency = (rack) =>
  busy(rack.counts) * 4 +
  (rack.counts.failed ?? 0) * 8 +
  (rack.counts.ready ?? 0) * 4 +
  (rack.counts.done ?? 0) * 0.1;

/** @param {any} tree @param {any} cluster @param {any[]} racks @param {boolean} isOpen */
function clusterRow(tree, cluster, racks, isOpen) {
  const { counts, hosts } = cluster;
  const words = [
    { text: `${counts.done ?? 0}/${hosts}`, form: "" },
    ...summary(counts).slice(0, 2),
  ];
  const shortly = fitting(words, cluster.cluster);
  const rest = words.slice(shortly.length).map((each) => each.text);
  const shown = [...racks]
    .sort((a, b) => urgency(b) - urgency(a))
    .slice(0, LANES_MAX)
    .filter((each) => each.lane.length);
  const lanes = racks.filter((each) => shown.includes(each)).map((each) => bars(each.lane));
  /** @type {Row} */
  const row = {
    id: `c:${cluster.cluster}`,
    kind: "cluster",
    level: 1,
    name: cluster.cluster || "–",
    words: shortly,
    isOpen,
    lanes: isOpen ? [] : lanes,
    work: isOpen ? undefined : workOf(tree, cluster, racks),
    // What has no room in the first line is in the second one, which an open row lacks.
    more: isOpen ? "" : [...rest, count(cluster.racks, "rack")].join(" · "),
    spoken: `cluster ${cluster.cluster}, ${words.map((each) => each.text).join(", ")}`,
  };
  return row;
}

/** Maximum characters of a name and the texts next to it; those of a name are wider. */
const CHARACTERS_MAX = 33;
const NAME_WIDTH = 1.3;

/** The first texts that fit next to a name. @param {Row["words"]} words @param {string} name */
function fitting(words, name) {
  let left = CHARACTERS_MAX - NAME_WIDTH * name.length;
  const end = words.findIndex(({ text }, index) => (left -= text.length + 3) < -2 && index > 0);
  return end < 0 ? words : words.slice(0, end);
}

/** @param {any} rack @param {boolean} isOpen @returns {Row} */
function rackRow(rack, isOpen) {
  const { counts } = rack;
  const words = summary(counts);
  if (counts.skipped) words.unshift({ text: `${counts.skipped} skipped`, form: "" });
  if (counts.done) words.unshift({ text: `${counts.done} done`, form: "" });
  if (counts.planned) words.push({ text: `${counts.planned} later`, form: "" });
  return {
    id: `r:${rack.cluster}/${rack.rack}`,
    kind: "rack",
    level: 2,
    name: within(rack.rack, rack.cluster),
    words: fitting(words, within(rack.rack, rack.cluster)),
    isOpen,
    lanes: isOpen ? [] : [bars(rack.lane)],
    spoken: `rack ${rack.rack}, ${words.map((each) => each.text).join(", ")}`,
  };
}

/** @param {any[]} racks Neighbours with the same word, as all done or planned. @returns {Row} */
function foldRow(racks) {
  const first = racks[0];
  const last = racks.at(-1);
  const hosts = racks.reduce((sum, each) => sum + each.hosts, 0);
  const lane = united(racks.flatMap((each) => bars(each.lane)));
  const text = `${hosts} ${isEven(first)}`;
  const name = `${within(first.rack, first.cluster)} – ${within(last.rack, last.cluster)}`;
  return {
    id: `f:${first.cluster}/${first.rack}`,
    kind: "fold",
    level: 2,
    name,
    words: [{ text, form: "" }],
    isOpen: false,
    lanes: [lane],
    spoken: `racks ${name}, ${text}`,
  };
}

/** @param {any} host @returns {{text: string, form: string}} */
export function standing(host) {
  const step = host.step?.kind ?? host.step?.state.toLowerCase() ?? "";
  const holder = heldBy(host);
  switch (host.state) {
    case "announced":
      return {
        text: host.approvals ? `${host.approvals.have}/${host.approvals.of} approved` : host.state,
        form: "",
      };
    case "ready":
      return { text: holder ? `held by ${within(holder, host.rack)}` : "held", form: "warn" };
    case "impacting":
      return {
        text:
          host.progress && step === "draining"
            ? `moves ${host.progress.done}/${host.progress.of}`
            : step,
        form: "run",
      };
    case "recovering":
      return { text: step === "done" ? host.state : step, form: "run" };
    case "failed":
      return { text: `✕ failed${step ? ` in ${step.replace(/ing$/, "")}` : ""}`, form: "bad" };
    case "planned":
      return {
        text:
          host.attempts > 1
            ? "again later"
            : host.forecast
              ? `about ${time.when(time.at(host.forecast.from))}`
              : `stage ${host.stage}`,
        form: "",
      };
    default:
      return { text: host.state, form: "" };
  }
}

/** @param {any} host */
export const heldBy = (host) =>
  host.blockers.find((/** @type {any} */ each) => each.host && each.host !== host.host)?.host ?? "";

/** @param {any} host @returns {Bar[]} */
function hostBars(host) {
  const isOver = host.state === "done" || host.state === "skipped";
  /** @type {Bar[]} */
  const found = host.segments.map((/** @type {any} */ each) => [
    FORMS[isOver && each.state !== "announced" ? host.state : each.state] ?? "s-gone",
    time.at(each.from),
    time.at(each.until),
  ]);
  // Of equal neighbours, only the outer edges say something.
  const merged = found
    .filter((each, index) => {
      const before = found[index - 1];
      if (!before || before[0] !== each[0] || before[2] !== each[1]) return true;
      each[1] = before[1];
      before[0] = "";
      return true;
    })
    .filter(([form]) => form);
  if (host.forecast)
    merged.push([
      "s-planned",
      Math.max(time.at(host.forecast.from), time.now()),
      time.at(host.forecast.until),
    ]);
  return merged;
}

/** @param {any} host @returns {Row} */
export function hostRow(host, level = 3) {
  const word = standing(host);
  const blocker = host.blockers[0];
  const fact =
    host.state === "failed"
      ? host.note
      : ["ready", "impacting", "recovering"].includes(host.state) && blocker?.kind !== "running"
        ? (blocker?.text ?? "")
        : "";
  const since = host.step?.since ? `, since ${time.minute(time.at(host.step.since))}` : "";
  return {
    id: `h:${host.host}`,
    kind: "host",
    level,
    name: level === 3 ? within(host.host, host.rack) : host.host,
    words: [word],
    lanes: [hostBars(host)],
    host,
    holder: host.state === "ready" ? heldBy(host) : "",
    waitsFor: heldBy(host),
    fact,
    spoken: `${host.host}, ${host.state}: ${word.text}${since}`,
  };
}

/**
 * @param {any} tree @param {(cluster: string) => any[]} racksOf
 * @param {(cluster: string, rack: string) => any[] | undefined} hostsOf Undefined: not there yet.
 * @param {(id: string, byDefault: boolean) => boolean} isOpen
 * @param {(rack: string, host: any) => boolean} isFolded
 * @returns {Row[]}
 */
export function rowsOf(tree, racksOf, hostsOf, isOpen, isFolded) {
  /** @type {Row[]} */
  const rows = [];
  for (const cluster of tree.clusters) {
    const racks = racksOf(cluster.cluster);
    const opened = isOpen(`c:${cluster.cluster}`, opensFirst(tree, cluster));
    rows.push(clusterRow(tree, cluster, racks, opened));
    if (opened) addRacks(rows, tree, racks, hostsOf, isOpen, isFolded);
  }
  return rows;
}

/** In a campaign of up to so many hosts, all work in progress is open at first. */
const SMALL_MAX = 200;

/**
 * Whether a cluster or a rack is open at first: where something needs a person. The others show
 * their work in lanes, so that all clusters are in sight.
 * @param {any} tree @param {any} part
 */
export function opensFirst(tree, { counts, rack }) {
  const isInFlight = Boolean(busy(counts) || counts.announced);
  return (
    (tree.clusters.length === 1 && rack === undefined) ||
    Boolean(counts.failed || counts.ready) ||
    (tree.hosts <= SMALL_MAX && isInFlight)
  );
}

/** @param {any} rack */
const isEven = (rack) =>
  rack.counts.done === rack.hosts
    ? "done"
    : rack.counts.skipped === rack.hosts
      ? "skipped"
      : rack.counts.planned === rack.hosts
        ? "later"
        : "";

/**
 * @param {Row[]} rows
 * @param {any} tree
 * @param {any[]} racks
 * @param {any} hostsOf
 * @param {any} isOpen
 * @param {any} isFolded
 */
function addRacks(rows, tree, racks, hostsOf, isOpen, isFolded) {
  for (let index = 0; index < racks.length; index++) {
    const rack = racks[index];
    const even = isEven(rack);
    let end = index;
    while (even && racks[end + 1] && isEven(racks[end + 1]) === even) end++;
    const run = racks.slice(index, end + 1);
    const hides = !run.some((each) => isOpen(`r:${each.cluster}/${each.rack}`, false));
    if (run.length > 1 && hides && !isOpen(`f:${rack.cluster}/${rack.rack}`, false)) {
      rows.push(foldRow(run));
      index = end;
      continue;
    }
    const opened = isOpen(`r:${rack.cluster}/${rack.rack}`, opensFirst(tree, rack));
    rows.push(rackRow(rack, opened));
    if (opened) addHosts(rows, rack, hostsOf(rack.cluster, rack.rack), isOpen, isFolded);
  }
}

/**
 * @param {Row[]} rows
 * @param {any} rack
 * @param {any[] | undefined} hosts
 * @param {any} isOpen
 * @param {any} isFolded
 */
function addHosts(rows, rack, hosts = [], isOpen, isFolded) {
  const key = `${rack.cluster}/${rack.rack}`;
  const fold = (/** @type {string} */ id, /** @type {string} */ word, /** @type {any[]} */ all) => {
    if (all.length < FOLD_MIN || isOpen(`${id}:${key}`, false)) return [];
    const text = count(all.length, "host");
    rows.push({
      id: `${id}:${key}`,
      kind: "fold",
      level: 3,
      name: text,
      words: [{ text: word, form: "" }],
      isOpen: false,
      lanes: [united(all.flatMap(hostBars))],
      spoken: `${text} of rack ${rack.rack}, ${word}`,
    });
    return all;
  };
  const done = fold(
    "d",
    "done",
    hosts.filter((each) => isFolded(key, each)),
  );
  const open = rows.length;
  const later = fold("p", "later", hosts.filter(isLater));
  // Those that come later are below those that are in work.
  const last = rows.splice(open);
  for (const host of hosts)
    if (!done.includes(host) && !later.includes(host)) rows.push(hostRow(host));
  rows.push(...last);
}

/** Whether nothing was done to a host yet. @param {any} host */
const isLater = ({ state, attempts, blockers }) =>
  state === "planned" && attempts <= 1 && !blockers.length;
