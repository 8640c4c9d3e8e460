// Orders to the simulation. They are sent at once; a refusal stands above the cards.

import { html, nothing } from "../lit.js";
import { NoAnswer, newKey, order, Refused } from "../api.js";
import { changed, refreshAll } from "../store.js";

/** An order that has no answer is sent again for so long: a simulation is on this machine. */
const ANSWER_MS = 60_000;

export const refusal = { text: "", hint: "" };

const noAnswer = (/** @type {string} */ hint) =>
  Object.assign(refusal, { text: "the simulator does not answer", hint });

/** @param {string} path @param {object} body @returns {Promise<boolean>} Whether it was done. */
export async function send(path, body) {
  refusal.text = "";
  try {
    const limit = AbortSignal.timeout(ANSWER_MS);
    const answer = await order(path, body, newKey(), limit, () => {
      noAnswer("The order is sent again.");
      changed({ now: true });
    });
    refusal.text = "";
    const [first] = answer?.refused ?? [];
    if (first) Object.assign(refusal, { text: first.error, hint: first.hint });
  } catch (error) {
    if (error instanceof NoAnswer) noAnswer("");
    else if (error instanceof Refused)
      Object.assign(refusal, { text: error.message, hint: error.hint });
    else throw error;
  }
  refreshAll();
  changed({ now: true });
  return !refusal.text;
}

export const sent = () =>
  refusal.text
    ? html`<div class="note w" role="alert">
        <span><b>Refused: ${refusal.text}.</b> ${refusal.hint}</span>
        <button
          class="small"
          @click=${() => {
            refusal.text = "";
            changed({ now: true });
          }}
        >
          OK
        </button>
      </div>`
    : nothing;

const REASON = { reason: "console" };

/** Events that a button publishes, by label. @type {[string, string, object][]} */
export const EVENTS = [
  ["Freeze", "Pauses the VM for some seconds", { type: "Freeze" }],
  ["Reboot", "Restarts the VM", { type: "Reboot" }],
  ["Redeploy", "Moves the VM to another host; local disks are lost", { type: "Redeploy" }],
  ["Preempt", "Deletes a Spot VM after 30 s", { type: "Preempt" }],
];

/** @param {string} vm @param {object} event */
export const publish = (vm, event) => send("/v1/sim/events", { vms: [vm], ...event });

/** What the list "More" does, by label. @type {Record<string, (vm: any) => [string, object]>} */
export const MORE = {
  "live-migrate": ({ vm }) => ["/v1/sim/events", { vms: [vm], type: "Freeze", migrate: true }],
  terminate: ({ vm }) => ["/v1/sim/events", { vms: [vm], type: "Terminate" }],
  "reboot, as its user": ({ vm }) => ["/v1/reboot", { vms: [vm], ...REASON }],
  reimage: ({ vm }) => ["/v1/reimage", { vms: [vm], ...REASON }],
  "upgrade-os": ({ vm }) => ["/v1/upgrade-os", { vms: [vm], ...REASON }],
  "predict-failure": ({ host }) => ["/v1/predict-failure", { hosts: [host], ...REASON }],
  restore: ({ vm }) => ["/v1/restore", { names: [vm], kind: "vm", ...REASON }],
};

/** @param {string} vm */
export const fail = (vm) => send("/v1/fail", { names: [vm], kind: "vm", ...REASON });
/** @param {string} vm @param {string[]} ids */
export const approve = (vm, ids) => send("/v1/approve", { event_ids: ids, as_vm: vm, ...REASON });
/** @param {string} vm @param {boolean} isWithheld */
export const withhold = (vm, isWithheld) =>
  send("/v1/sim/approvals", { do: isWithheld ? "release" : "withhold", vms: [vm] });
/** @param {string} id @param {"started" | "cancelled" | "recovering" | "removed"} to */
export const move = (id, to) => send(`/v1/sim/operations/${encodeURIComponent(id)}/move`, { to });

/** Faults that the list offers: label and syntax. @type {[string, string][]} */
export const FAULTS = [
  ["500, twice", "500 x2"],
  ["timeout", "timeout"],
  ["500 ×2, timeout, ok", "500 x2, timeout, ok"],
  ["429", "429 x3"],
  ["empty", "empty"],
  ["broken JSON", "broken"],
  ["an older document", "stale"],
  ["slow", "delay 3s x3"],
];

/** @param {string} vm @param {string} text Empty: none any more. */
export async function fault(vm, text) {
  const isClear = await send("/v1/sim/faults/clear", { vms: [vm] });
  if (isClear && text) await send("/v1/sim/faults", { vms: [vm], faults: text });
}
