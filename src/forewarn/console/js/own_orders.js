// Orders that a tenant gives about its own VMs: what each does, and what happens without it.

import { html } from "./lit.js";
import { meaning } from "./choice.js";
import { ask } from "./dialogs.js";
import { says } from "./effect.js";
import { capital, count, some } from "./text.js";
import * as time from "./time.js";

const HOUR = 3_600_000;

/** @param {string[]} names */
const vmsOf = (names) => (names.length === 1 ? names[0] : count(names.length, "VM"));

/** @param {any[]} events */
export function approve(events) {
  const vms = [...new Set(events.flatMap((each) => each.vms))];
  const { approved, otherwise } = meaning(events);
  return ask({
    title:
      events.length === 1
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
export const expedite = (vms) =>
  ask({
    title: `Expedite the maintenance of ${vmsOf(vms)}?`,
    path: "/v1/expedite",
    body: { vms },
    effect: says(
      html`<b>${some(vms)}</b>: maintained as soon as possible`,
      "Approved at once, even if an agent there has not prepared: drain the VMs first",
    ),
    button: () => `Expedite ${count(vms.length, "VM")}`,
    placeholder: "Such as: drained",
  });

/** @param {string[]} names VMs or scopes. @param {number} hours */
export const defer = (names, hours) => {
  const until = new Date(Math.ceil((time.now() + hours * HOUR) / 60_000) * 60_000);
  const by = hours < 48 ? `${hours} hours` : `${hours / 24} days`;
  return ask({
    title: `Defer the maintenance of ${some(names, 2)} by ${by}?`,
    path: "/v1/defer",
    body: { names, until: until.toISOString() },
    effect: says(
      html`It does not start before <b>${time.when(until.getTime())}</b>; you get a new notice`,
      "Announced maintenance is withdrawn without impact",
      "Each maintenance can be deferred twice",
    ),
    button: () => `Defer ${count(names.length, "VM")}`,
    placeholder: "Such as: month end",
  });
};

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
