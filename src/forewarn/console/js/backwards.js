// Lists that are read from their newest end, and kept: older pages when a person asks for
// them, newer objects without reading the known ones again.

import { get } from "./api.js";
import { READY, changed, resource } from "./store.js";

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
 * @param {(read: Read) => Promise<Read>} [of.renew] What reads the newer ones; without it, the
 *   list is read from its beginning again.
 * @param {{topics?: string[], pause?: number}} [how] As of a resource: when newer ones are read.
 * @returns {Backwards}
 */
export function backwards({ path, key, enough, requests = 1, renew }, how = { topics: [READY] }) {
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

  /** @type {import("./store.js").Resource} */
  const self = resource(
    () => (renew && self.value?.items.length ? renew(self.value) : step("")),
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
