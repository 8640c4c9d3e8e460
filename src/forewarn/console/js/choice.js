// What an approval of a notice means, and what happens without one: the same words on the
// card and in the dialog.

import { one } from "./store.js";
import * as time from "./time.js";

/** @param {any} event */
export const notBefore = (event) => (event.NotBefore ? Date.parse(event.NotBefore) : NaN);

/** Kinds of the reasons that the card and the dialog have in their own words. */
const OWN = ["not before", "approval"];

/**
 * Reasons of the service besides its notice and this approval.
 * @param {any} event
 * @returns {string[]}
 */
export function reasons(event) {
  /** @type {any[]} */
  const found = one("operations", event.operation)?.blockers ?? [];
  return found.filter((each) => !OWN.includes(each.kind)).map((each) => each.text);
}

/**
 * @param {any[]} events Notices that nobody has approved.
 * @returns {{approved: string, otherwise: string}}
 */
export function meaning(events) {
  const isHeld = events.some((each) => reasons(each).length > 0);
  const limit = time.when(Math.max(...events.map(notBefore)));
  return {
    approved: isHeld ? "it may start when nothing else holds it" : "it may start at once",
    otherwise: `it starts at ${limit}${isHeld ? " or later" : ""}`,
  };
}
