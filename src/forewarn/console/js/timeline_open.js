// Which rows of the timeline are open: by themselves while the page is new, then only as a
// person wants them.

import { html } from "./lit.js";
import { changed } from "./store.js";

/** What a person opened or closed, by row. @type {Map<string, boolean>} */
const openness = new Map();
/**
 * Hosts that were done when their rack was opened; those done later stay in their rows.
 * @type {Map<string, Set<string>>}
 */
const folded = new Map();
/** In the first seconds of a page, rows still open for work that begins. */
const SETTLED_MS = 8000;
let beganAt = 0;
let allOpen = false;

/** @param {string} id @param {boolean} byDefault */
export function isOpen(id, byDefault) {
  const known = openness.get(id);
  if (known !== undefined) return known;
  const found = (allOpen && !id.startsWith("d:")) || byDefault;
  // Nothing opens or closes by itself once one has had time to look at it.
  if (found || performance.now() - beganAt > SETTLED_MS) openness.set(id, found);
  return found;
}

/** @param {string} key @param {any} host */
export function isFolded(key, host) {
  let known = folded.get(key);
  if (!known) folded.set(key, (known = new Set()));
  if (host.state !== "done") {
    known.delete(host.host);
    // From now on, it keeps its row.
    known.add(`!${host.host}`);
  } else if (!known.has(`!${host.host}`)) known.add(host.host);
  return known.has(host.host);
}

/** @param {string} id */
export function toggle(id, to = !openness.get(id)) {
  openness.set(id, to);
  if (!to && id.startsWith("r:")) folded.delete(id.slice(2));
  changed({ now: true });
}

/** The folds of hosts in a state. @type {Record<string, string>} */
const FOLDS = { done: "d", planned: "p" };

/** Open all that hides a host. @param {{cluster: string, rack: string, state: string}} host */
export function open({ cluster, rack, state }) {
  for (const id of [`c:${cluster}`, `r:${cluster}/${rack}`]) openness.set(id, true);
  const fold = FOLDS[state];
  if (fold) openness.set(`${fold}:${cluster}/${rack}`, true);
  changed({ now: true });
}

/** Forget what was opened and closed, as for another campaign. */
export function closeAll() {
  beganAt = performance.now();
  openness.clear();
  folded.clear();
  allOpen = false;
}

/** The button that opens or closes all rows. */
export const opener = () =>
  html`<button class="quiet small hide-p" @click=${() => openAll(!allOpen)}>
    ${allOpen ? "Close all" : "Open all"}
  </button>`;

/** @param {boolean} value Whether all rows are open, but those of hosts that are done. */
export function openAll(value) {
  allOpen = value;
  openness.clear();
  changed({ now: true });
}
