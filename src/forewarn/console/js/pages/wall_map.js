// The squares of the wall: one for each host by rack, or for each rack of a large campaign,
// or for each cluster of a very large one.

import { html, nothing, svg } from "../lit.js";
import { number } from "../text.js";

/** Up to so many hosts, each has a square. */
const HOSTS_MAX = 1000;
/** Squares in one line; a rack with more hosts takes several lines. */
const LINE_MAX = 20;
/** Racks in one line, if a square is a rack. */
const RACKS_LINE = 10;
/** Width and height of a square with the gap after it. */
const STEP_X = 21;
const STEP_Y = 24;

/** States in the order in which a rack shows them, with the class and word of each. @type {[string, string, string][]} */
const STATES = [
  ["done", "s-done", "done"], ["recovering", "s-impact", "running"], ["impacting", "s-impact", "running"], ["failed", "s-failed", "failed"], ["ready", "s-held", "held"],
  ["announced", "s-noticed", "announced"], ["planned", "s-planned", "planned"], ["skipped", "s-gone", "skipped"],
];
const FORMS = Object.fromEntries(STATES.map(([state, form]) => [state, form]));

/** @param {Record<string, number>} counts @returns {string[]} The state of each square. */
const spread = (counts) => STATES.flatMap(([state]) => Array.from({ length: counts[state] ?? 0 }, () => state));

/** @param {number} x @param {number} y */
const square = (x, y) => `M${1 + x * STEP_X} ${1 + y * STEP_Y}h18v20h-18z`;

/** @param {number} x @param {number} y */
const cross = (x, y) => svg`<text class="onf" x=${5.5 + x * STEP_X} y=${15 + y * STEP_Y}>✕</text>`;

/** @param {any[]} racks @param {any} cluster @param {string} [good] */
function hosts(racks, cluster, good) {
  const width = Math.min(LINE_MAX, Math.max(5, ...racks.map((each) => each.hosts)));
  /** @type {Record<string, string>} */
  const paths = {};
  /** @type {any[]} */
  const crosses = [];
  let y = 0;
  for (const rack of racks) {
    spread(rack.counts).forEach((state, index) => {
      const [column, line] = [index % width, y + Math.floor(index / width)];
      const form = FORMS[state] ?? "s-gone";
      paths[form] = (paths[form] ?? "") + square(column, line);
      if (state === "failed") crosses.push(cross(column, line));
    });
    y += Math.max(1, Math.ceil(rack.hosts / width));
  }
  return drawn(cluster, width, y, svg`${Object.entries(paths).map(([form, path]) => svg`<path class=${form} d=${path}/>`)}${crosses}`, good);
}

/** A square for each part, filled as far as it is done. @param {any[]} parts @param {any} cluster @param {number} width */
function shares(parts, cluster, width) {
  return drawn(cluster, Math.min(width, Math.max(5, parts.length)), Math.ceil(parts.length / width), svg`${parts.map((each, index) => {
    const [x, y] = [index % width, Math.floor(index / width)];
    const filled = Math.round((20 * (each.counts.done ?? 0)) / Math.max(1, each.hosts));
    return svg`<path class=${FORMS[each.worst] ?? "s-gone"} d=${square(x, y)}/>${filled ? svg`<rect class="s-done" x=${1 + x * STEP_X} y=${21 - filled + y * STEP_Y} width="18" height=${filled}/>` : nothing}${each.counts.failed ? cross(x, y) : nothing}`;
  })}`);
}

/** @param {any} cluster @param {number} width @param {number} height @param {any} body @param {string} [good] The word for what is well. */
function drawn(cluster, width, height, body, good = "done") {
  const { done = 0, failed = 0 } = cluster.counts;
  return html`<figure><figcaption><b>${cluster.cluster || "–"}</b><span>${number(done)}/${number(cluster.hosts)}${failed ? html` <b class="bad">✕ ${number(failed)}</b>` : nothing}</span></figcaption>
    <svg viewBox="0 0 ${width * STEP_X + 1} ${Math.max(1, height) * STEP_Y + 1}" preserveAspectRatio="xMinYMin" role="img" aria-label="${cluster.cluster || "no cluster"}: ${number(done)} of ${number(cluster.hosts)} ${good}${failed ? `, ${number(failed)} failed` : ""}">${body}</svg></figure>`;
}

const OF_CAMPAIGN = [["s-done", "done"], ["s-impact", "running"], ["s-noticed", "announced"], ["s-held", "held"], ["s-failed", "failed"], ["s-planned", "planned"]];
const OF_FLEET = [["s-done", "up"], ["s-impact", "working"], ["s-held", "cordoned"], ["s-failed", "down"]];

const key = (/** @type {string} */ unit, forms = OF_CAMPAIGN) => html`<div class="legend">${forms.map(([form, word]) => html`<span><svg aria-hidden="true"><rect x=".5" y=".5" width="17" height="9" rx="2" class=${form}/></svg>${word}</span>`)}<span>${unit}</span></div>`;

/** @param {any} tree The campaign by cluster and rack. */
export function map(tree) {
  if (!tree) return nothing;
  const racksOf = (/** @type {any} */ cluster) => tree.racks.filter((/** @type {any} */ each) => each.cluster === cluster.cluster);
  const hasRacks = !tree.racks_left_out;
  const columns = tree.clusters.length > 24 ? "many" : tree.clusters.length > 8 ? "some" : "";
  if (tree.hosts <= HOSTS_MAX && hasRacks) return html`<div class="map ${columns}">${tree.clusters.map((/** @type {any} */ each) => hosts(racksOf(each), each))}${key("a square is a host, a line a rack")}</div>`;
  if (hasRacks) return html`<div class="map ${columns}">${tree.clusters.map((/** @type {any} */ each) => shares(racksOf(each), each, RACKS_LINE))}${key("a square is a rack, as full as it is done")}</div>`;
  const whole = { cluster: "all clusters", hosts: tree.hosts, counts: tree.counts };
  return html`<div class="map">${shares(tree.clusters, whole, LINE_MAX)}${key("a square is a cluster, as full as it is done")}</div>`;
}

/** The fleet while no campaign runs. @param {any[]} places Clusters or zones, as the capacity tells them. */
export function fleetMap(places) {
  const size = places.reduce((sum, each) => sum + each.hosts, 0);
  if (!size || size > HOSTS_MAX) return nothing;
  return html`<div class="map ${places.length > 8 ? "some" : ""}">${places.map((each) => {
    const work = Math.min(each.in_work, each.hosts);
    const counts = { impacting: work, failed: each.down, ready: Math.max(0, Math.min(each.cordoned, each.hosts - each.down - work)) };
    const up = Math.max(0, each.hosts - counts.impacting - counts.failed - counts.ready);
    const name = each.cluster || (each.zone ? `zone ${each.zone}` : "");
    return hosts([{ hosts: each.hosts, counts: { ...counts, done: up } }], { cluster: name, hosts: each.hosts, counts: { done: each.hosts - each.down, failed: each.down } }, "up");
  })}${key("a square is a host", OF_FLEET)}</div>`;
}
