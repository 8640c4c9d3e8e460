// Many bars as few: those of a fold overlap, and a closed cluster has more racks than lanes.

import * as time from "./time.js";

/** Lanes of a closed cluster: more would not be seen. */
export const LANES_MAX = 8;

/** The class of each state. @type {Record<string, string>} */
export const FORMS = {
  planned: "s-planned",
  announced: "s-noticed",
  ready: "s-held",
  impacting: "s-impact",
  recovering: "s-recover",
  failed: "s-failed",
  skipped: "s-gone",
  done: "s-done",
};

/**
 * Bars of the same class that overlap, as one.
 * @param {import("./timeline_rows.js").Bar[]} found
 * @returns {import("./timeline_rows.js").Bar[]}
 */
export function united(found) {
  const end = (/** @type {number} */ at) => (Number.isNaN(at) ? Infinity : at);
  const shown = [...found].sort((one, other) => one[1] - other[1]);
  /** @type {Map<string, import("./timeline_rows.js").Bar[]>} */
  const made = new Map();
  for (const [form, from, until] of shown) {
    const list = made.get(form) ?? [];
    made.set(form, list);
    const last = list.at(-1);
    if (!last || end(last[2]) < from) list.push([form, from, until]);
    else if (end(until) > end(last[2])) last[2] = until;
  }
  // What has begun lies over what was only announced.
  const forms = Object.values(FORMS);
  return [...made]
    .sort(([one], [other]) => forms.indexOf(one) - forms.indexOf(other))
    .flatMap(([, list]) => list);
}

/** The most hosts in work of a cluster, by tree. @type {WeakMap<any, number>} */
const highest = new WeakMap();

/** @param {any} tree */
function mostOf(tree) {
  const found =
    highest.get(tree) ??
    tree.clusters.reduce(
      (/** @type {number} */ most, /** @type {any} */ each) => Math.max(most, ...each.busy),
      1,
    );
  highest.set(tree, found);
  return found;
}

/**
 * The hosts in work of a closed cluster, if it has no lane for each busy rack.
 * @param {any} tree @param {any} cluster @param {any[]} racks
 * @returns {import("./timeline_rows.js").Histogram | undefined}
 */
export function workOf(tree, cluster, racks) {
  const { busy } = cluster;
  const isNamed = racks.length >= cluster.racks;
  const lanes = racks.filter((each) => each.lane.length).length;
  // A plan has no work yet.
  if (!busy || (isNamed && lanes <= LANES_MAX)) return undefined;
  return { busy, most: mostOf(tree), from: time.at(tree.from), until: time.at(tree.until) };
}
