// Lists that are read from their newest end, and kept: older pages when a person asks for
// them, newer objects without reading the known ones again.

import { get } from "./api.js";
import { READY, changed, resource } from "./store.js";

/** Newer objects of one request, and requests for them before the list is read again. */
const NEWER_MAX = 1000;
const NEWER_REQUESTS_MAX = 5;
/** Objects that are kept while newer ones come, in a tab that is open for days. */
const KEPT_MAX = 5000;

/**
 * @typedef {object} Read
 * @property {any[]} items The newest first.
 * @property {string} next Where the older ones begin; empty: all have been read.
 * @property {any} answer The latest answer of the service.
 */

/**
 * @typedef {import("./store.js").Resource & {more: () => Promise<void>, isBusy: () => boolean}}
 *   Backwards
 */

/**
 * @param {object} of
 * @param {string} of.path The path with its filters.
 * @param {string} of.key The member of an answer that has the objects.
 * @param {number} of.enough Objects of one step.
 * @param {number} [of.requests] Requests of one step at most, if few objects match the filters.
 * @param {(object: any) => string} [of.place] Where the service reads on from an object, in the
 *   order of time. Without it, the list is read from its newest end again.
 * @param {{topics?: string[], pause?: number}} [how] As of a resource: when newer ones are read.
 * @returns {Backwards}
 */
export function backwards({ path, key, enough, requests = 1, place }, how = { topics: [READY] }) {
  const joint = path.includes("?") ? "&" : "?";
  let isBusy = false;

  /** @param {string} after @returns {Promise<Read>} */
  async function step(after) {
    /** @type {any[]} */
    const items = [];
    for (let sent = 1; ; sent++) {
      const answer = await get(
        `${path}${joint}newest=true&limit=${enough}&after=${encodeURIComponent(after)}`,
      );
      items.push(...answer[key]);
      after = answer.next ?? "";
      if (!after || items.length >= enough || sent === requests)
        return { items, next: after, answer };
    }
  }

  /**
   * The list with the objects that came after its newest one.
   * @param {Read} read @param {(object: any) => string} at
   * @returns {Promise<Read>}
   */
  async function renewed(read, at) {
    let items = read.items;
    for (let sent = 0; sent < NEWER_REQUESTS_MAX; sent++) {
      const after = encodeURIComponent(at(items[0]));
      const answer = await get(`${path}${joint}limit=${NEWER_MAX}&after=${after}`);
      items = [...answer[key].reverse(), ...items];
      if (answer.next) continue;
      if (items.length <= KEPT_MAX || items.length === read.items.length) return { ...read, items };
      items = items.slice(0, KEPT_MAX);
      return { ...read, items, next: at(items[KEPT_MAX - 1]) };
    }
    // The newer ones are so many that reading them all would take too long.
    return step("");
  }

  /** @type {import("./store.js").Resource} */
  const self = resource(
    () => (place && self.value?.items.length ? renewed(self.value, place) : step("")),
    how,
  );

  async function more() {
    if (isBusy || !self.value?.next) return;
    isBusy = true;
    changed({ now: true });
    try {
      const older = await step(self.value.next);
      self.value = { ...older, items: [...self.value.items, ...older.items] };
      self.error = null;
    } catch (error) {
      self.error = /** @type {Error} */ (error);
    }
    isBusy = false;
    changed({ now: true });
  }
  return Object.assign(self, { more, isBusy: () => isBusy });
}
