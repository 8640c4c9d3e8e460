// The latest changes of everything, for the pages that show some of them.

import { newest } from "../api.js";
import { isMain } from "../parts.js";
import { READY, news, resource } from "../store.js";

/** Main changes that are read: several can be one line. */
const LINES_READ = 40;

/** The latest entries of the history from before the stream began, the newest first. */
export const past = resource(() => newest("", LINES_READ, isMain), { topics: [READY] });

/** The same with what the stream has brought since. @returns {any[]} */
export function entries() {
  const fresh = news();
  const known = new Set(fresh.map((each) => each.id));
  return [...fresh, ...(past.value ?? []).filter((/** @type {any} */ each) => !known.has(each.id))];
}
