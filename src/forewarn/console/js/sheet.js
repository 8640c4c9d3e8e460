// What the sheets of a plan and of a simulation have in common: hosts by cluster and rack on
// the timeline, and tables.

import { groupedBy } from "./groups.js";
import { html } from "./lit.js";
import * as time from "./time.js";
import * as timeline from "./timeline.js";
import { openAll, opener } from "./timeline_open.js";

/** Up to so many hosts, all rows are open at first. */
const OPEN_MAX = 60;

/** @typedef {[string, string, string]} Stretch State, beginning and end in RFC 3339. */

/** @param {any} host @returns {Stretch[]} */
const stretches = ({ segments, forecast }) => [
  ...segments.map((/** @type {any} */ each) => [each.state, each.from, each.until]),
  ...(forecast ? [["planned", forecast.from, forecast.until]] : []),
];

/** Stretches of one state that touch are one. @param {any[]} hosts @returns {Stretch[]} */
function laneOf(hosts) {
  /** @type {Stretch[]} */
  const found = [];
  /** @type {Map<string, Stretch>} */
  const last = new Map();
  for (const each of hosts
    .flatMap(stretches)
    .sort((one, other) => time.at(one[1]) - time.at(other[1]))) {
    const before = last.get(each[0]);
    if (!before || time.at(before[2]) < time.at(each[1])) {
      last.set(each[0], each);
      found.push(each);
    } else if (time.at(each[2]) > time.at(before[2])) before[2] = each[2];
  }
  return found;
}

/** @param {any[]} hosts @returns {Record<string, number>} */
function counted(hosts) {
  /** @type {Record<string, number>} */
  const found = {};
  for (const each of hosts) found[each.state] = (found[each.state] ?? 0) + 1;
  return found;
}

/**
 * @param {any[]} hosts
 * @param {(host: any) => string} placeOf
 * @returns {[string, any[]][]} In the order of the names.
 */
const placed = (hosts, placeOf) =>
  [...groupedBy(hosts, placeOf)].sort(([one], [other]) =>
    one.localeCompare(other, "en", { numeric: true }),
  );

/** The hosts of a campaign as the service tells them of a running one. @param {any[]} hosts */
export function treeOf(hosts) {
  const places = placed(hosts, (each) => each.cluster).map(([cluster, mine]) => ({
    cluster,
    hosts: mine.length,
    counts: counted(mine),
    racks: placed(mine, (each) => each.rack).map(([rack, list]) => ({
      cluster,
      rack,
      hosts: list.length,
      counts: counted(list),
      lane: laneOf(list),
      list,
    })),
  }));
  const racksOf = (/** @type {string} */ cluster) =>
    places.find((each) => each.cluster === cluster)?.racks ?? [];
  return {
    tree: {
      hosts: hosts.length,
      counts: counted(hosts),
      clusters: places.map((each) => ({ ...each, racks: each.racks.length })),
    },
    racksOf,
    hostsOf: (/** @type {string} */ cluster, /** @type {string} */ rack) =>
      racksOf(cluster).find((each) => each.rack === rack)?.list,
  };
}

/** @type {{of: any, built: any}} */
let kept = { of: null, built: null };

/**
 * What is computed from the data once; it is never changed.
 * @template T
 * @param {any} data
 * @param {() => T} build
 * @returns {T}
 */
function once(data, build) {
  if (kept.of !== data) kept = { of: data, built: build() };
  return kept.built;
}

/**
 * The hosts on the timeline, as far as the data goes.
 * @param {any[]} rows Hosts, as rows of a campaign.
 * @param {any} terms Windows and blackouts.
 * @param {number} from
 * @param {number} until
 */
export function hosts(rows, terms, from, until) {
  const { built, whole } = once(rows, () => {
    if (rows.length <= OPEN_MAX) openAll(true);
    return { built: treeOf(rows), whole: { from, until: Math.max(until, from + 1) } };
  });
  return html`<section class="card tl" aria-labelledby="tlh">
    <div class="tools">
      <h2 id="tlh">Hosts</h2>
      <span class="grow"></span>${opener()}
    </div>
    ${timeline.timeline({ ...built, found: null, terms, selected: "", select: () => {}, whole })}
  </section>`;
}

/** Windows and blackouts for the timeline. @param {any[]} openings @param {any[]} blackouts */
export const terms = (openings, blackouts) => ({
  windows: openings.map(
    (each) => /** @type {[number, number]} */ ([time.at(each.opens), time.at(each.closes)]),
  ),
  blackouts: blackouts.map((each) => ({
    name: each.name,
    from: time.at(each.begins),
    until: time.at(each.ends),
  })),
});

/** @param {any} value @param {string} word @param {boolean} [isBad] */
export const fact = (value, word, isBad) =>
  html`<div><b class=${isBad ? "bad" : ""}>${value}</b>${word}</div>`;

/**
 * @param {string} name What it lists.
 * @param {string[]} head A name with " #" at its end is of a column of numbers.
 * @param {any[][]} rows The first cell names the row.
 */
export const table = (name, head, rows) =>
  html`<div class="scrollx" tabindex="0" role="region" aria-label=${name}>
    <table>
      <thead>
        <tr>
          ${head.map(
            (each) =>
              html`<th scope="col" class=${each.endsWith(" #") ? "num" : ""}>
                ${each.replace(" #", "")}
              </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ([first, ...rest]) =>
            html`<tr>
              <th scope="row">${first}</th>
              ${rest.map(
                (each, index) =>
                  html`<td class=${head[index + 1]?.endsWith(" #") ? "num nw" : ""}>${each}</td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
