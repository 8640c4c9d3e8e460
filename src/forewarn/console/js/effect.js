// The effect of an order, as the service counts it, in words.

import { html } from "./lit.js";
import { count, some } from "./text.js";

/**
 * Parts of a counted effect, by what happens: how it is said. `n` is its noun with the number.
 * @type {[string, (n: string, others: string) => any][]}
 */
const SAID = [
  ["cancelled", (n, others) => html`<b>${n}</b> cancelled without impact${others}`],
  [
    "continues",
    (n, others) => html`<b>${n}</b> left to go on${others}: a start is the point of no return`,
  ],
  ["approved", (n, others) => html`<b>${n}</b> approved${others}`],
  ["started", (n, others) => html`<b>${n}</b> started at once${others}`],
  ["announced", (n, others) => html`<b>${n}</b> announced now${others}`],
  ["planned", (n) => html`<b>${n}</b> planned, to come in turn`],
  ["ended", (n, others) => html`<b>${n}</b> ended${others}`],
  ["held", (n) => html`<b>${n}</b> held`],
  ["freed", (n) => html`<b>${n}</b> no longer held`],
];

/**
 * @param {string} kind
 * @param {any} part
 * @returns {[string, string]} What it is about, and whom it concerns besides.
 */
function counted(kind, part) {
  const of = part.tenants ? ` of ${count(part.tenants, "tenant")}` : "";
  // Only approvals are about events: all else is about hosts or VMs.
  const first =
    kind === "approved" && part.events
      ? count(part.events, "event")
      : part.hosts
        ? count(part.hosts, "host")
        : "";
  if (first) return [first, part.vms ? `: ${count(part.vms, "VM")}${of}` : ""];
  if (part.vms) return [count(part.vms, "VM") + of, ""];
  return [count(part.operations ?? part.events ?? 0, part.operations ? "operation" : "event"), ""];
}

/** The hosts to which VMs would go. @param {any[]} moves */
export const whereTo = (moves) => some([...new Set(moves.map((each) => each.to_host))].sort(), 4);

/**
 * What an order does: as the service counts it, and what the words of its verb mean.
 * @param {any[]} plain
 */
export const says =
  (...plain) =>
  (/** @type {any} */ effect) => {
    const lines = effect
      ? SAID.filter(([kind]) => effect[kind]).map(([kind, say]) =>
          say(...counted(kind, effect[kind])),
        )
      : [];
    if (effect?.moves?.length) lines.push(html`They would go to <b>${whereTo(effect.moves)}</b>`);
    if (effect?.waiting_hosts)
      lines.push(html`<b>${count(effect.waiting_hosts, "host")}</b> not begun`);
    return [...lines, ...plain.filter(Boolean)];
  };
