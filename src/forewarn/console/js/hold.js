// Rows that a person points at, or has reached by keyboard, stay where they are, so that a click or
// a key hits what was meant.

import { html, nothing } from "./lit.js";

/** A finger leaves no pointer behind: only a focus that was set by keyboard holds there. */
const HOVERS = matchMedia("(hover: hover)");
const FOCUSED = ":focus-visible, :has(:focus-visible)";

/**
 * What was shown when nobody pointed at it, by the ID of the element, and how many rows are not
 * shown yet.
 * @type {Map<string, {rows: any[], asked: string, newer: number}>}
 */
const kept = new Map();

/** @param {string} id */
function isHeld(id) {
  const found = document.getElementById(id);
  return Boolean(found && (found.matches(FOCUSED) || (HOVERS.matches && found.matches(":hover"))));
}

/** How many rows a list does not show yet, for its header. @param {string} id */
export function newer(id) {
  const number = kept.get(id)?.newer ?? 0;
  return number ? html`<span class="soft">${number} new</span>` : nothing;
}

/**
 * The rows to show: those of before while the pointer is over them, with their present values.
 * @param {string} id The ID of the element around them.
 * @param {any[]} rows
 * @param {(row: any) => string} key
 * @param {string} [asked] What was chosen: another choice shows other rows at once.
 * @returns {{rows: any[], over: Set<string>}} `over` has the keys of those that are gone.
 */
export function hold(id, rows, key, asked = "") {
  const last = kept.get(id);
  if (!last || last.asked !== asked || !isHeld(id)) {
    kept.set(id, { rows, asked, newer: 0 });
    return { rows, over: new Set() };
  }
  const fresh = new Map(rows.map((each) => [key(each), each]));
  const known = new Set(last.rows.map(key));
  last.newer = rows.filter((each) => !known.has(key(each))).length;
  return {
    rows: last.rows.map((each) => fresh.get(key(each)) ?? each),
    over: new Set([...known].filter((each) => !fresh.has(each))),
  };
}
