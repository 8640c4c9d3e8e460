// Rows that a person points at stay where they are, so that a click hits what was meant.

/** A finger leaves no pointer behind: without one, nothing is held. */
const HOVERS = matchMedia("(hover: hover)");

/**
 * What was shown when nobody pointed at it, by the ID of the element.
 * @type {Map<string, {rows: any[], asked: string}>}
 */
const kept = new Map();

/**
 * The rows to show: those of before while the pointer is over them, with their present values.
 * @param {string} id The ID of the element around them.
 * @param {any[]} rows
 * @param {(row: any) => string} key
 * @param {string} [asked] What was chosen: another choice shows other rows at once.
 * @returns {{rows: any[], newer: number, over: Set<string>}} `newer` are not shown yet; `over` has
 *   the keys of those that are gone.
 */
export function hold(id, rows, key, asked = "") {
  const last = kept.get(id);
  const isHeld = HOVERS.matches && document.getElementById(id)?.matches(":hover");
  if (!last || !isHeld || last.asked !== asked) {
    kept.set(id, { rows, asked });
    return { rows, newer: 0, over: new Set() };
  }
  const fresh = new Map(rows.map((each) => [key(each), each]));
  const known = new Set(last.rows.map(key));
  return {
    rows: last.rows.map((each) => fresh.get(key(each)) ?? each),
    newer: rows.filter((each) => !known.has(key(each))).length,
    over: new Set([...known].filter((each) => !fresh.has(each))),
  };
}
