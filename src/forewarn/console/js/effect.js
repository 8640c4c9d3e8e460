// The effect of an order, as the service counts it, in words.

import { html } from "./lit.js";
import { count } from "./text.js";

/**
 * Parts of a counted effect, by what happens: how it is said. `n` is its noun with the number.
 * @type {[string, (n: string, others: string) => any][]}
 */
const SAID = [
  ["cancelled", (n, others) => html`<b>${n}</b> cancelled without impact${others}`],
  ["goes_on", (n, others) => html`<b>${n}</b> left to go on${others}`],
  ["approved", (n, others) => html`<b>${n}</b> approved${others}`],
  ["started", (n, others) => html`<b>${n}</b> started at once${others}`],
  ["announced", (n, others) => html`<b>${n}</b> announced now${others}`],
  ["planned", (n) => html`<b>${n}</b> planned, to come in turn`],
  ["ended", (n, others) => html`<b>${n}</b> ended${others}`],
  ["held", (n) => html`<b>${n}</b> held`],
  ["freed", (n) => html`<b>${n}</b> no longer held`],
];

/** @param {any} part @returns {[string, string]} Its hosts or VMs, and whom it concerns. */
function counted(part) {
  const first = part.hosts
    ? count(part.hosts, "host")
    : part.operations
      ? count(part.operations, "operation")
      : part.vms
        ? count(part.vms, "VM")
        : count(part.events ?? 0, "event");
  const others =
    part.vms && (part.hosts || part.operations)
      ? `: ${count(part.vms, "VM")}${part.tenants ? ` of ${count(part.tenants, "tenant")}` : ""}`
      : "";
  return [first, others];
}

/**
 * What an order does: as the service counts it, and what the words of its verb mean.
 * @param {any[]} plain
 */
export const says =
  (...plain) =>
  (/** @type {any} */ effect) => {
    const lines = effect
      ? SAID.filter(([kind]) => effect[kind]).map(([kind, say]) => say(...counted(effect[kind])))
      : [];
    if (effect?.waiting_hosts)
      lines.push(html`<b>${count(effect.waiting_hosts, "host")}</b> not begun`);
    return [...lines, ...plain.filter(Boolean)];
  };
