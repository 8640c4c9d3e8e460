// The hosts of a campaign: what was fetched of them, with the changes that the stream has brought
// since. A page draws both as one, so that no change needs a request.

import { list as listOf } from "./api.js";
import { READY, all, resource } from "./store.js";

/** What changes with the time only, such as forecasts, is fetched after this time. */
const PAUSE_MS = 30_000;
/** The same of a tree whose racks do not name their hosts, and of one whose racks do. */
const COUNTS_PAUSE_MS = 2000;
const LANES_PAUSE_MS = 10_000;
/** Pages of 200 hosts that are read at most: more rows than a person looks at. */
const PAGES_MAX = 5;

const pathOf = (/** @type {string} */ id, /** @type {string} */ rest) =>
  `/v1/campaigns/${encodeURIComponent(id)}${rest}`;

/**
 * What the stream has told of hosts of a campaign since something was read.
 * @param {string} id @param {number} since In the browser's ms.
 */
const news = (id, since) =>
  all("campaign-hosts").filter((each) => each.campaign === id && each.heard >= since);

/**
 * A value that is made from what was read and what has changed since, once for both.
 * @template Made
 * @param {string} id Of the campaign.
 * @param {import("./store.js").Resource} from
 * @param {(value: any, news: any[]) => Made} make
 * @returns {() => Made | undefined}
 */
function joined(id, from, make) {
  /** @type {any} */
  let value;
  /** @type {any[]} */
  let known = [];
  /** @type {Made | undefined} */
  let made;
  return () => {
    if (!from.value) return undefined;
    const fresh = news(id, from.at);
    const isSame =
      value === from.value &&
      fresh.length === known.length &&
      fresh.every((each, index) => each === known[index]);
    if (isSame) return made;
    value = from.value;
    known = fresh;
    return (made = make(value, fresh));
  };
}

/** @typedef {{list: import("./store.js").Resource, rows: () => any[] | undefined}} Rows */

/**
 * The hosts of a place, or in some states, by name.
 * @param {string} id Of the campaign.
 * @param {{cluster?: string, rack?: string, state?: string}} which States are separated by commas.
 * @param {number} [most] Hosts that are enough.
 * @returns {Rows}
 */
export function campaignRows(id, which, most = 0) {
  const query = new URLSearchParams({ ...which, limit: String(most || 200) });
  const list = resource(
    async () => (await listOf(pathOf(id, `/hosts?${query}`), "hosts", most ? 1 : PAGES_MAX)).items,
    { topics: [READY, "campaigns"], pause: PAUSE_MS },
  );
  const states = which.state?.split(",");
  const isThere = (/** @type {any} */ row) =>
    (which.cluster === undefined || row.cluster === which.cluster) &&
    (which.rack === undefined || row.rack === which.rack);
  const rows = joined(id, list, (/** @type {any[]} */ read, fresh) => {
    const found = new Map(read.map((each) => [each.host, each]));
    for (const row of fresh)
      if (states && !states.includes(row.state)) found.delete(row.host);
      else if (isThere(row)) found.set(row.host, row);
    if (!states) return [...found.values()];
    return [...found.values()].sort((one, other) => (one.host < other.host ? -1 : 1));
  });
  return { list, rows };
}

/** @typedef {{list: import("./store.js").Resource, value: () => any}} Tree */

/**
 * The clusters and racks of a campaign.
 * @param {string} id Of the campaign.
 * @returns {Tree}
 */
export function campaignTree(id) {
  const list = resource(pathOf(id, "/tree"), {
    topics: [READY, "history", "campaigns"],
    pause: (value) => (value && namesHosts(value) ? LANES_PAUSE_MS : COUNTS_PAUSE_MS),
  });
  return { list, value: joined(id, list, withStates) };
}

/** @param {any} tree */
const namesHosts = ({ racks }) =>
  racks.length && racks.every((/** @type {any} */ each) => each.states.length === each.hosts);

/** Counts with other states. @param {Record<string, number>} counts @param {Change[]} changes */
function recounted(counts, changes) {
  const found = { ...counts };
  for (const { was, is } of changes) {
    found[was] = (found[was] ?? 0) - 1;
    if (!found[was]) delete found[was];
    found[is] = (found[is] ?? 0) + 1;
  }
  return found;
}

/** @typedef {{cluster: string, was: string, is: string}} Change */

/**
 * The tree with the present states of hosts.
 * @param {any} tree @param {any[]} fresh
 */
function withStates(tree, fresh) {
  const states = new Map(fresh.map((each) => [each.host, each.state]));
  /** @type {Change[]} */
  const changes = [];
  const racks = tree.racks.map((/** @type {any} */ rack) => {
    /** @type {Change[]} */
    const mine = [];
    for (const [host, was] of rack.states) {
      const is = states.get(host) ?? was;
      if (is !== was) mine.push({ cluster: rack.cluster, was, is });
    }
    if (!mine.length) return rack;
    changes.push(...mine);
    return {
      ...rack,
      states: rack.states.map((/** @type {string[]} */ [host = "", was]) => [
        host,
        states.get(host) ?? was,
      ]),
      counts: recounted(rack.counts, mine),
    };
  });
  if (!changes.length) return tree;
  return {
    ...tree,
    racks,
    counts: recounted(tree.counts, changes),
    clusters: tree.clusters.map((/** @type {any} */ each) => ({
      ...each,
      counts: recounted(
        each.counts,
        changes.filter(({ cluster }) => cluster === each.cluster),
      ),
    })),
  };
}
