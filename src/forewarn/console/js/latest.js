// The latest changes of the history. It is listed from the oldest on, so it is read in parts of
// time, the newest part first, until there are enough.

import { get } from "./api.js";
import * as time from "./time.js";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** Where the parts begin, before now: quiet services have few changes in one, busy ones many. */
const PARTS = [5 * MINUTE, 60 * MINUTE, 8 * 60 * MINUTE, 2 * DAY, 14 * DAY, 60 * DAY];
/** Requests at most, which many changes without a wanted one would need. */
const REQUESTS_MAX = 30;
/** A part this short is not divided further: its first page stands for it. */
const SHORTEST_MS = 100;

/** The lengths that the pages offer. @type {Record<string, number>} */
const UNITS = { m: MINUTE, h: 60 * MINUTE, d: DAY };
/** @param {string} text Such as "2d". */
const lengthOf = (text) => Number(text.slice(0, -1)) * (UNITS[text.at(-1) ?? ""] ?? NaN);

/**
 * @param {string} query Filters of the history, without times.
 * @param {string} span How far back, such as "60d".
 * @param {number} most Changes that are enough.
 * @param {(entry: any) => boolean} [isWanted] Which of them count.
 * @returns {Promise<any[]>} The newest first.
 */
export async function latest(query, span, most, isWanted = () => true) {
  const now = time.now();
  const whole = lengthOf(span) || DAY;
  /** @type {any[]} */
  const found = [];
  let wanted = 0;
  let requests = 0;
  // Parts that are still to be read, the newest last. The newest has no end: clocks differ.
  const edges = [...PARTS.filter((each) => each < whole), whole].map((each) => now - each);
  const parts = edges.map((from, index) => ({ from, to: edges[index - 1] ?? NaN })).reverse();
  while (parts.length && wanted < most && requests++ < REQUESTS_MAX) {
    const { from, to } = /** @type {{from: number, to: number}} */ (parts.pop());
    const end = Number.isNaN(to) ? "" : `&until=${new Date(to).toISOString()}`;
    const since = `${query ? "&" : ""}since=${new Date(from).toISOString()}`;
    const { entries, next } = await get(`/v1/history?${query}${since}${end}&limit=1000`);
    const length = (Number.isNaN(to) ? now : to) - from;
    if (next && length > SHORTEST_MS) {
      const middle = Math.round(from + length / 2);
      parts.push({ from, to: middle }, { from: middle, to });
      continue;
    }
    found.push(...entries.reverse());
    wanted += entries.filter(isWanted).length;
  }
  return found;
}
