// The card of a VM: its document byte for byte, its last poll, and what can be done to it.

import { html, nothing } from "../lit.js";
import { pill } from "../parts.js";
import { short } from "../text.js";
import * as time from "../time.js";
import * as orders from "./simulator_orders.js";

/** @typedef {{text: string | null, requests: any[], operations: any[], faults: any[]}} Known */

/** Parts of JSON text: keys, texts, numbers, and what is between. */
const PARTS = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?)|([{[\]}])|([^"\d{}[\]-]+|-)/gs;
/** Members whose values a reader looks for. */
const MAIN = new Set(["EventStatus", "NotBefore"]);
const KIND = new Set(["EventType", "DocumentIncarnation", "DurationInSeconds"]);

/**
 * The same bytes with classes: each member begins a line, but no character is added, left
 * out or moved.
 * @param {string} text
 */
function colored(text) {
  let key = "";
  let depth = 0;
  return [...text.matchAll(PARTS)].map(([whole, quoted, colon, digits, bracket]) => {
    if (bracket) depth += "{[".includes(bracket) ? 1 : -1;
    if (quoted && colon) {
      key = quoted.slice(1, -1);
      return html`<br /><span class="tab t${depth}"></span
        ><span class="k">${quoted}</span>${colon}`;
    }
    const form = quoted || digits ? (MAIN.has(key) ? "n" : KIND.has(key) ? "v" : "") : "";
    return form ? html`<span class=${form}>${whole}</span>` : whole;
  });
}

/** @param {string | null} text @returns {any[]} The events of a document. */
export function eventsOf(text) {
  try {
    return text ? JSON.parse(text).Events : [];
  } catch {
    return [];
  }
}

/** @param {any} vm @param {any[]} events */
function standing(vm, events) {
  if (vm.state !== "running") return pill("err", vm.state);
  const mine = events.filter((each) => each.Resources.includes(vm.vm));
  const event = mine[0] ?? events[0];
  if (!event) return pill("fine", "no event");
  if (!mine.length)
    return pill("idle", `sees ${event.EventType} of ${short(event.Resources.join(", "), 16)}`);
  if (event.EventStatus === "Started") return pill("run", `${event.EventType} started`);
  return pill(
    ["Preempt", "Terminate"].includes(event.EventType) ? "err" : "wait",
    `${event.EventType} ${time.until(Date.parse(event.NotBefore))}`,
  );
}

/** @param {any[]} requests */
function polled(requests) {
  const last = requests.findLast((each) => each.method === "GET");
  if (!last) return "never polled";
  const minute = requests.filter(
    (each) => each.method === "GET" && time.at(each.at) > time.now() - 60_000,
  ).length;
  const age = Math.max(0, time.now() - time.at(last.at));
  const client = last.headers["user-agent"]?.[0] ?? "no User-Agent";
  return html`polled ${age < 10_000 ? `${(age / 1000).toFixed(1)} s` : time.roughly(age)} ago,
    ${minute} in the last minute · <span class="mono">${short(client, 28)}</span>`;
}

/**
 * Orders behind one button. A list of choices would give one with each arrow key.
 * @param {string} label
 * @param {string} spoken
 * @param {[string, () => void][]} entries
 */
function menu(label, spoken, entries) {
  const choose = (/** @type {Event} */ event, /** @type {() => void} */ act) => {
    const box = /** @type {HTMLElement} */ (event.target).closest("details");
    if (box) box.open = false;
    box?.querySelector("summary")?.focus();
    act();
  };
  const leave = (/** @type {KeyboardEvent} */ event) => {
    const box = /** @type {HTMLDetailsElement} */ (event.currentTarget);
    if (event.key !== "Escape" || !box.open) return;
    box.open = false;
    box.querySelector("summary")?.focus();
  };
  return html`<details class="menu" @keydown=${leave}>
    <summary class="btn small" role="button" aria-label=${spoken}>${label} ▾</summary>
    <div>
      ${entries.map(
        ([word, act]) =>
          html`<button
            class="quiet small"
            @click=${(/** @type {Event} */ event) => choose(event, act)}
          >
            ${word}
          </button>`,
      )}
    </div>
  </details>`;
}

/** @param {any} vm @returns {[string, () => void][]} */
const others = (vm) =>
  Object.entries(orders.MORE).map(([word, make]) => [word, () => void orders.send(...make(vm))]);
/** @param {any} vm @returns {[string, () => void][]} */
const faultsOf = (vm) =>
  orders.FAULTS.map(([word, value]) => [word, () => void orders.fault(vm.vm, value)]);

/** @param {any} vm @param {any[]} events */
function answers(vm, events) {
  const open = events.filter((each) => each.EventStatus === "Scheduled" && each.Resources.length);
  const mine = open.filter((each) => each.Resources.includes(vm.vm));
  return html`${
      open.length
        ? html`<button
            class="prim small"
            @click=${() =>
              orders.approve(
                vm.vm,
                open.map((each) => each.EventId),
              )}
          >
            Approve as ${vm.vm}
          </button>`
        : nothing
    }
    <button
      class="small"
      aria-pressed=${vm.withheld ? "true" : "false"}
      title=${
        vm.withheld
          ? "Its approvals do not count until they are released"
          : "Its approvals are answered, but do not count"
      }
      @click=${() => orders.withhold(vm.vm, vm.withheld)}
    >
      ${vm.withheld ? "Release" : "Withhold"}
    </button>
    ${
      mine.length
        ? html`<button class="small" @click=${() => orders.move(mine[0].EventId, "started")}>
              Start now</button
            ><button class="small" @click=${() => orders.move(mine[0].EventId, "cancelled")}>
              Cancel
            </button>`
        : nothing
    }`;
}

/** @param {any} vm @param {Known} known */
export function card(vm, { text, requests, faults }) {
  const events = eventsOf(text);
  const address = vm.url?.replace(/^https?:\/\//, "") ?? "no address";
  const id = `vm-${vm.vm}`;
  const fault = faults.filter((/** @type {any} */ each) => !each.over).at(-1);
  return html`<section class="card vm" aria-labelledby=${id}>
    <header>
      <b id=${id}>${vm.vm}</b><span class="mono soft">${address}</span
      ><span class="grow"></span>${standing(vm, events)}
    </header>
    <pre tabindex="0" aria-label="Document of ${vm.vm}">
${text === null ? "Its scope has not enabled events: the first poll does." : colored(text)}</pre>
    <footer>
      <span class="soft">${polled(requests)}</span>
      <div class="acts">
        ${orders.EVENTS.map(
          ([label, what, event]) =>
            html`<button class="small" title=${what} @click=${() => orders.publish(vm.vm, event)}>
              ${label}
            </button>`,
        )}<button
          class="small"
          title="The VM is down at once, without a notice"
          @click=${() => orders.fail(vm.vm)}
        >
          Fail
        </button>
        ${menu("More", `More for ${vm.vm}`, others(vm))}
      </div>
      <div class="acts">
        ${answers(vm, events)}<span class="grow"></span>
        ${
          fault
            ? html`<span class="warn b">${fault.faults.join(", ")}</span
                ><button class="small" @click=${() => orders.fault(vm.vm, "")}>Clear</button>`
            : menu("Fault", `Fault of ${vm.vm}`, faultsOf(vm))
        }
      </div>
    </footer>
  </section>`;
}
