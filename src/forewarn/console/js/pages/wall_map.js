// The squares of the wall: one for each host by rack, or for each rack of a large campaign
// or fleet, or for each cluster of a very large one.

import { groupedBy } from "../groups.js";
import { html, nothing, svg } from "../lit.js";
import { swatches } from "../parts.js";
import { number } from "../text.js";

/** Up to so many racks, each has a square. */
const RACKS_MAX = 1000;
/** Squares in one line; a rack with more hosts takes several lines. */
const LINE_MAX = 20;
/** Racks in one line, if a square is a rack. */
const RACKS_LINE = 10;
/** Width and height of a square with the gap after it. */
const STEP_X = 21;
const STEP_Y = 24;
/** Of a rack with few hosts, they are so much wider at most. */
const WIDER_MAX = 3;
/**
 * Width by height of the place that a picture of a cluster has, by the number of lines of clusters.
 * @type {Record<string, number>}
 */
const PLACES = { r1: 0.5, r2: 1, r3: 1.6 };
/** How much wider the squares are drawn now. */
let wider = 1;

/**
 * The class of each state of a host, in a campaign and in the fleet.
 * @type {Record<string, string>}
 */
const FORMS = {
  done: "s-done",
  recovering: "s-impact",
  impacting: "s-impact",
  failed: "s-failed",
  ready: "s-held",
  announced: "s-noticed",
  planned: "s-planned",
  skipped: "s-gone",
  up: "s-done",
  working: "s-impact",
  cordoned: "s-held",
  down: "s-failed",
};
/** States of a host that needs a person. */
const BAD = new Set(["failed", "down"]);

/** What the caption of a part says. @typedef {{good: string, bad: string}} Words */
const OF_WORK = { good: "done", bad: "failed" };
const OF_HOSTS = { good: "up", bad: "down or failed" };

/** @param {number} x @param {number} y */
function square(x, y) {
  const width = STEP_X * wider - 3;
  return `M${1 + x * STEP_X * wider} ${1 + y * STEP_Y}h${width}v20h-${width}z`;
}

/** @param {number} x @param {number} y */
const cross = (x, y) =>
  svg`<text class="onf" x=${5.5 + x * STEP_X * wider + (STEP_X * (wider - 1)) / 2}
    y=${15 + y * STEP_Y}>✕</text>`;

/**
 * A square for each host, at the same place whatever its state is.
 * @param {{hosts: number, states: string[]}[]} racks @param {any} cluster @param {Words} words
 * @param {string} form How many lines of clusters there are.
 */
function hosts(racks, cluster, words, form) {
  const width = Math.min(LINE_MAX, Math.max(5, ...racks.map((each) => each.hosts)));
  const lines = racks.reduce((sum, each) => sum + Math.max(1, Math.ceil(each.hosts / width)), 0);
  const room = ((PLACES[form.slice(0, 2)] ?? 0) * lines * STEP_Y) / (width * STEP_X);
  wider = Math.round(10 * Math.max(1, Math.min(WIDER_MAX, room))) / 10;
  /** @type {Record<string, string>} */
  const paths = {};
  /** @type {any[]} */
  const crosses = [];
  let y = 0;
  for (const rack of racks) {
    rack.states.forEach((state, index) => {
      const [column, line] = [index % width, y + Math.floor(index / width)];
      const form = FORMS[state] ?? "s-gone";
      paths[form] = (paths[form] ?? "") + square(column, line);
      if (BAD.has(state)) crosses.push(cross(column, line));
    });
    y += Math.max(1, Math.ceil(rack.hosts / width));
  }
  return drawn(
    cluster,
    width,
    y,
    svg`${Object.entries(paths).map(
      ([form, path]) => svg`<path class=${form} d=${path}/>`,
    )}${crosses}`,
    words,
  );
}

/**
 * @typedef {{hosts: number, worst: string, full: number}} Part A rack or a cluster; `full`: of its
 *   hosts, so many are done.
 */

/**
 * A square for each part, filled as far as it is done.
 * @param {Part[]} parts
 * @param {any} cluster
 * @param {number} width
 * @param {Words} words
 */
function shares(parts, cluster, width, words) {
  wider = 1;
  return drawn(
    cluster,
    Math.min(width, Math.max(5, parts.length)),
    Math.ceil(parts.length / width),
    svg`${parts.map((each, index) => {
      const [x, y] = [index % width, Math.floor(index / width)];
      const filled = Math.round((20 * each.full) / Math.max(1, each.hosts));
      return svg`<path class=${FORMS[each.worst] ?? "s-gone"} d=${square(x, y)}/>${
        filled
          ? svg`<rect class="s-done" x=${1 + x * STEP_X} y=${21 - filled + y * STEP_Y} width="18"
              height=${filled}/>`
          : nothing
      }${BAD.has(each.worst) ? cross(x, y) : nothing}`;
    })}`,
    words,
  );
}

/**
 * @param {{cluster: string, hosts: number, good: number, bad: number}} cluster
 * @param {number} width
 * @param {number} height
 * @param {any} body
 * @param {Words} words
 */
function drawn({ cluster, hosts: size, good, bad }, width, height, body, words) {
  return html`<figure>
    <figcaption>
      <b>${cluster || "–"}</b
      ><span
        >${number(good)}/${number(size)}${
          bad ? html` <b class="bad">✕ ${number(bad)}</b>` : nothing
        }</span
      >
    </figcaption>
    <svg
      viewBox="0 0 ${Math.round(width * STEP_X * wider) + 1} ${Math.max(1, height) * STEP_Y + 1}"
      preserveAspectRatio="xMinYMin"
      role="img"
      aria-label="${cluster || "no cluster"}: ${number(good)} of ${number(size)} ${words.good}${
        bad ? `, ${number(bad)} ${words.bad}` : ""
      }"
    >
      ${body}
    </svg>
  </figure>`;
}

const OF_CAMPAIGN = [
  ["s-done", "done"],
  ["s-impact", "running"],
  ["s-noticed", "announced"],
  ["s-held", "held"],
  ["s-failed", "failed"],
  ["s-planned", "planned"],
];
const OF_FLEET = [
  ["s-done", "up"],
  ["s-noticed", "announced"],
  ["s-impact", "working"],
  ["s-held", "cordoned"],
  ["s-failed", "down or failed"],
];

const key = (/** @type {string} */ unit, forms = OF_CAMPAIGN) =>
  html`<div class="legend">${swatches(forms)}<span>${unit}</span></div>`;

/**
 * The form of the map: the key has a place among the clusters.
 * @param {number} clusters
 */
const columns = (clusters) =>
  clusters > 24
    ? "many"
    : clusters > 8
      ? "some"
      : `r${Math.ceil((clusters + 1) / 3)}${clusters === 1 ? " one" : ""}`;

/** @param {any} each A cluster of a campaign. */
const worked = (each) => ({
  cluster: each.cluster,
  hosts: each.hosts,
  good: each.counts.done ?? 0,
  bad: each.counts.failed ?? 0,
});
/** @param {any} each @returns {Part} */
const share = (each) => ({
  hosts: each.hosts,
  worst: each.counts.failed ? "failed" : each.worst,
  full: each.counts.done ?? 0,
});

/** @param {any} tree The campaign by cluster and rack. */
export function map(tree) {
  if (!tree) return nothing;
  const { clusters, racks } = tree;
  const racksOf = (/** @type {any} */ cluster) =>
    racks.filter((/** @type {any} */ each) => each.cluster === cluster.cluster);
  const form = columns(clusters.length);
  if (tree.racks_left_out)
    return html`<div class="map">
      ${shares(
        clusters.map(share),
        worked({ ...tree, cluster: "all clusters" }),
        LINE_MAX,
        OF_WORK,
      )}${key("a square is a cluster, as full as it is done")}
    </div>`;
  // The service names the hosts of a campaign that is small enough for it.
  if (racks.every((/** @type {any} */ each) => each.states.length === each.hosts)) {
    const named = (/** @type {any} */ each) => ({
      hosts: each.hosts,
      states: each.states.map((/** @type {string[]} */ one) => one[1]),
    });
    return html`<div class="map ${form}">
      ${clusters.map((/** @type {any} */ each) =>
        hosts(racksOf(each).map(named), worked(each), OF_WORK, form),
      )}${key("a square is a host, a line a rack")}
    </div>`;
  }
  return html`<div class="map ${form}">
    ${clusters.map((/** @type {any} */ each) =>
      shares(racksOf(each).map(share), worked(each), RACKS_LINE, OF_WORK),
    )}${key("a square is a rack, as full as it is done")}
  </div>`;
}

/** @param {any} each A cluster of the fleet. */
const standing = (each) => ({
  cluster: each.cluster,
  hosts: each.hosts,
  good: each.hosts - (each.counts.down ?? 0) - (each.counts.failed ?? 0),
  bad: (each.counts.down ?? 0) + (each.counts.failed ?? 0),
});
/** The states of the fleet, the worst first. */
const WORST = ["down", "failed", "working", "announced", "cordoned", "up"];

/** @param {any} cluster The hosts that the service names, by rack. */
const racksIn = (cluster) =>
  [...groupedBy(/** @type {any[]} */ (cluster.squares), ([rack]) => rack).values()].map((rack) => ({
    hosts: rack.length,
    states: rack.map(([, , state]) => state),
  }));

/** The fleet while no campaign runs. @param {any} overview */
export function fleetMap(overview) {
  if (!overview?.hosts) return nothing;
  const { clusters } = overview;
  const form = columns(clusters.length);
  const racks = clusters.reduce(
    (/** @type {number} */ sum, /** @type {any} */ each) => sum + each.racks.length,
    0,
  );
  if (clusters.every((/** @type {any} */ each) => each.squares.length === each.hosts))
    return html`<div class="map ${form}">
      ${clusters.map((/** @type {any} */ each) =>
        hosts(racksIn(each), standing(each), OF_HOSTS, form),
      )}${key("a square is a host, a line a rack", OF_FLEET)}
    </div>`;
  if (racks <= RACKS_MAX) {
    const part = (/** @type {any} */ [, worst, size]) => ({ hosts: size, worst, full: 0 });
    return html`<div class="map ${form}">
      ${clusters.map((/** @type {any} */ each) =>
        shares(each.racks.map(part), standing(each), RACKS_LINE, OF_HOSTS),
      )}${key("a square is a rack, in its worst state", OF_FLEET)}
    </div>`;
  }
  const parts = clusters.map((/** @type {any} */ each) => ({
    hosts: each.hosts,
    worst: WORST.find((state) => each.counts[state]) ?? "up",
    full: 0,
  }));
  return html`<div class="map">
    ${shares(
      parts,
      standing({ ...overview, cluster: "all clusters" }),
      LINE_MAX,
      OF_HOSTS,
    )}${key("a square is a cluster, in its worst state", OF_FLEET)}
  </div>`;
}
