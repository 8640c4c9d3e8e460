// Who waits for whom in the timeline, as values: the arrows of held hosts, and the whole chain
// of a host that one looks at.

/** Arrows of a chain: more would hide the bars. */
const CHAIN_MAX = 40;

/** @typedef {{from: string, to: string, isOn: boolean}} Edge The host `from` waits for `to`. */

/**
 * Everything that a host waits for, directly or not, and what waits for it.
 * @param {Map<string, string>} waitsFor Of each host, the one that it waits for.
 * @param {string} host
 * @returns {[string, string][]}
 */
export function chainOf(waitsFor, host) {
  /** @type {[string, string][]} */
  const found = [];
  const seen = new Set();
  for (let from = host; ;) {
    const to = waitsFor.get(from);
    if (!to || seen.has(from) || found.length >= CHAIN_MAX) break;
    seen.add(from);
    found.push([from, to]);
    from = to;
  }
  const asked = [host];
  for (const to of asked)
    for (const [from, holder] of waitsFor)
      if (holder === to && !seen.has(from) && found.length < CHAIN_MAX) {
        seen.add(from);
        found.push([from, to]);
        asked.push(from);
      }
  return found;
}

/**
 * The arrows to draw: those of held hosts, and the chain of one host, which stands out.
 * @param {import("./timeline_rows.js").Row[]} rows Those whose own arrow is drawn.
 * @param {import("./timeline_rows.js").Row[]} all
 * @param {string} host The one that one looks at; empty: none.
 * @returns {Edge[]}
 */
export function edgesOf(rows, all, host) {
  /** @type {Map<string, Edge>} */
  const found = new Map();
  for (const { host: held, holder } of rows)
    if (holder) found.set(held.host, { from: held.host, to: holder, isOn: false });
  if (host) {
    const waitsFor = new Map(
      all.filter((each) => each.waitsFor).map((each) => [each.host.host, each.waitsFor ?? ""]),
    );
    for (const [from, to] of chainOf(waitsFor, host)) found.set(from, { from, to, isOn: true });
  }
  return [...found.values()];
}
