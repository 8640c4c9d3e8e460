// The time that a timeline shows: as one chooses it, and at first what fits.

import { asked, look } from "./query.js";
import * as time from "./time.js";
import { NOW_SHARE } from "./timeline_bars.js";

const HOUR = 3_600_000;
/** The words and the length of each span. @type {Record<string, [string, number]>} */
export const SPANS = {
  m: ["30 min", HOUR / 2],
  "2h": ["2 h", 2 * HOUR],
  "4h": ["4 h", 4 * HOUR],
  night: ["Night", 12 * HOUR],
  all: ["3 days", 72 * HOUR],
};
/** The widest span that is taken without a choice. */
const USUAL = "4h";
/** The span that fitted when the page was new: nothing jumps while time goes on. */
let fitted = "";

/** Look at another campaign. */
export function resetSpan() {
  fitted = "";
}

/** Take the span that has all since the beginning of a campaign. @param {string} began */
export function fit(began) {
  if (fitted || !began) return;
  const age = time.now() - time.at(began);
  const names = Object.keys(SPANS);
  const found = names.find((each) => NOW_SHARE * (SPANS[each]?.[1] ?? 0) >= age) ?? USUAL;
  fitted = names[Math.min(names.indexOf(found), names.indexOf(USUAL))] ?? USUAL;
}

export const spanName = () => (SPANS[asked("span")] ? asked("span") : fitted || USUAL);
export const spanLength = () => SPANS[spanName()]?.[1] ?? HOUR;

/** @param {1 | -1} by Wider or narrower. */
export function zoom(by) {
  const names = Object.keys(SPANS);
  const next = names[names.indexOf(spanName()) + by];
  if (next) look({ span: next });
}
