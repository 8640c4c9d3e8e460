// Orders that a tenant gives about its own VMs: what each does, and what happens without it.

import { html } from "./lit.js";
import { meaning } from "./choice.js";
import { ask, become } from "./dialogs.js";
import { says } from "./effect.js";
import { capital, count, some } from "./text.js";
import * as time from "./time.js";

const MINUTE = 60_000;
/** What is offered first, in ms. */
const DEFERRED = 24 * 60 * MINUTE;

/** @param {string[]} names */
const vmsOf = (names) => (names.length === 1 ? names[0] : count(names.length, "VM"));

/** @param {any[]} events */
export function approve(events) {
  const vms = [...new Set(events.flatMap((each) => each.vms))];
  const { approved, otherwise } = meaning(events);
  const operations = new Set(events.map((each) => each.operation));
  return ask({
    title:
      operations.size === 1
        ? `Approve the ${events[0].EventType} of ${some(vms, 2)}?`
        : `Approve ${count(events.length, "event")}?`,
    path: "/v1/approve",
    body: { event_ids: events.map((each) => each.EventId) },
    effect: says(
      html`<b>${some(vms)}</b>: ${approved}`,
      "Agents in these VMs that still prepare are not waited for",
      html`Without an approval <b>${otherwise}</b>`,
    ),
    button: () => `Approve ${count(vms.length, "VM")}`,
    placeholder: "Such as: drained",
  });
}

/** @param {string[]} vms */
export const redeploy = (vms) =>
  ask({
    title: `Redeploy ${vmsOf(vms)} elsewhere?`,
    path: "/v1/redeploy",
    body: { vms },
    effect: says(
      html`<b>${some(vms)}</b>: started again on other hardware, with a notice first`,
      "Local disks and memory are lost",
    ),
    button: () => `Redeploy ${count(vms.length, "VM")}`,
    placeholder: "Such as: in our own time",
  });

/** @param {string[]} vms */
export const restart = (vms) =>
  ask({
    title: `Restart ${vmsOf(vms)} now?`,
    path: "/v1/reboot",
    body: { vms },
    effect: says(
      html`<b>${some(vms)}</b>: stopped and started on the same host, with a notice first`,
      "Disks stay; memory is lost",
      "It does not replace the maintenance, which still comes",
    ),
    button: () => `Restart ${count(vms.length, "VM")}`,
    placeholder: "Such as: in our own time",
  });

/**
 * A choice among VMs, and scopes of them.
 * @param {string[]} vms All of them are the first choice.
 * @param {string[]} scopes
 * @param {{kind: string, names: string[]}} chosen
 * @param {(chosen: {kind: string, names: string[]}) => void} choose
 */
function choiceOf(vms, scopes, chosen, choose) {
  const choices = [
    ...(vms.length > 1 ? [{ kind: "vm", names: vms, word: `all ${count(vms.length, "VM")}` }] : []),
    ...vms.map((each) => ({ kind: "vm", names: [each], word: each })),
    ...scopes.map((each) => ({ kind: "scope", names: [each], word: `scope ${each}` })),
  ];
  const isChosen = (/** @type {any} */ each) =>
    each.kind === chosen.kind && String(each.names) === String(chosen.names);
  return html`<label class="field"
    >What
    <select
      @change=${(/** @type {any} */ event) => choose(choices[event.target.selectedIndex] ?? chosen)}
    >
      ${choices.map((each) => html`<option .selected=${isChosen(each)}>${each.word}</option>`)}
    </select></label
  >`;
}

/** @param {string[]} vms */
export function expedite(vms) {
  /** @param {string[]} names @returns {Partial<import("./dialogs.js").Ask>} */
  const expediting = (names) => ({
    title: `Expedite the maintenance of ${vmsOf(names)}?`,
    body: { vms: names },
    effect: says(
      html`<b>${some(names)}</b>: maintained as soon as possible`,
      "Approved at once, even if an agent there has not prepared: drain the VMs first",
    ),
    button: () => `Expedite ${count(names.length, "VM")}`,
    fields: () =>
      html`<div class="fields">
        ${choiceOf(vms, [], { kind: "vm", names }, (chosen) => become(expediting(chosen.names)))}
      </div>`,
  });
  const first = /** @type {import("./dialogs.js").Ask} */ (expediting(vms));
  ask({ ...first, path: "/v1/expedite", placeholder: "Such as: drained" });
}

/** @param {string[]} vms @param {string[]} scopes Those of the VMs. */
export function defer(vms, scopes) {
  /**
   * @param {{kind: string, names: string[]}} chosen @param {number} until
   * @returns {Partial<import("./dialogs.js").Ask>}
   */
  const deferring = (chosen, until) => ({
    title: `Defer the maintenance of ${some(chosen.names, 2)}?`,
    body: { names: chosen.names, kind: chosen.kind, until: new Date(until).toISOString() },
    effect: (effect) =>
      says(
        html`It does not start before <b>${time.when(until)}</b>; you get a new notice`,
        !effect && "Announced maintenance is cancelled without impact",
        "Each maintenance can be deferred twice",
      )(effect),
    button: () =>
      chosen.kind === "scope"
        ? `Defer scope ${chosen.names}`
        : `Defer ${count(chosen.names.length, "VM")}`,
    fields: () =>
      html`<div class="fields">
        ${choiceOf(vms, scopes, chosen, (other) => become(deferring(other, until)))}<label
          class="field"
          >Until, ${time.zoneName()}
          <input
            type="datetime-local"
            .value=${time.toField(until)}
            @change=${(/** @type {any} */ event) => {
              const at = time.ofField(event.target.value);
              if (!Number.isNaN(at)) become(deferring(chosen, at));
            }}
        /></label>
      </div>`,
  });
  const until = Math.ceil((time.now() + DEFERRED) / MINUTE) * MINUTE;
  const first = deferring({ kind: "vm", names: vms }, until);
  ask({
    .../** @type {import("./dialogs.js").Ask} */ (first),
    path: "/v1/defer",
    placeholder: "Such as: month end",
  });
}

/** @param {string} name */
export const clear = (name) =>
  ask({
    title: `End the deferral of ${name}?`,
    path: "/v1/defer",
    body: { names: [name], clear: true },
    effect: says("Its maintenance can be announced at once", "The deferral still counts"),
    button: () => "End it",
    placeholder: "Such as: wrong VM",
  });

/** @param {any} operation @param {string[]} vms */
export const cancel = (operation, vms) =>
  ask({
    title: `Cancel the ${operation.impact} of ${vmsOf(vms)}?`,
    path: "/v1/cancel",
    body: { names: [operation.operation] },
    effect: says(
      `${capital(vmsOf(vms) ?? "")} ${vms.length === 1 ? "is" : "are"} not touched: ` +
        "it has not started",
    ),
    button: () => "Cancel it",
    back: "Keep it",
  });
