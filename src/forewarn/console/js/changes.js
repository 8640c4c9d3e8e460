// Changes of the history, the newest first: those that were read, and those of the stream.

import { backwards } from "./backwards.js";
import { READY, news } from "./store.js";

/** Requests of one step: the service searches 10,000 entries for each. */
const REQUESTS_MAX = 5;
/** Pause between two requests for newer entries, where the stream does not show which match. */
const PAUSE_MS = 5000;

/**
 * @param {Record<string, string>} query Filters of the service.
 * @param {number} enough Entries of one step.
 * @param {((entry: any) => boolean) | null} [isMine] Which entries of the stream match, besides
 *   the filter `main`; null: only the service knows.
 */
export function changes(query, enough, isMine = () => true) {
  const list = backwards(
    {
      path: `/v1/history?${new URLSearchParams({ ...query, brief: "true" })}`,
      key: "entries",
      enough,
      requests: REQUESTS_MAX,
      place: (entry) => entry.id,
    },
    isMine ? { topics: [READY] } : { topics: ["history", READY], pause: PAUSE_MS },
  );
  return {
    list,
    /** @returns {any[]} */
    entries() {
      const read = list.value?.items ?? [];
      const known = new Set(read.map((each) => each.id));
      const fresh = news().filter(
        (each) => !known.has(each.id) && isMine?.(each) && (each.main || !query["main"]),
      );
      return [...fresh, ...read];
    },
  };
}

/** Which entries of the stream are about an object. @param {string} kind @param {string} name */
export const about = (kind, name) => (/** @type {any} */ entry) =>
  entry.subjects.includes(`${kind}:${name}`);
