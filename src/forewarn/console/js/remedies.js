// What ends a problem: orders about VMs that are down and unknown outcomes, and the buttons of each
// problem.

import { html } from "./lit.js";
import { ask } from "./dialogs.js";
import { says } from "./effect.js";
import { open, visit } from "./host_orders.js";
import * as orders from "./orders.js";
import { hasRole, mayOrder } from "./parts.js";
import { count, some } from "./text.js";

/** @param {string[]} names */
export const restore = (names) =>
  ask({
    title: `Mark ${names.length === 1 ? names[0] : count(names.length, "VM")} as restored?`,
    path: "/v1/restore",
    body: { names },
    effect: says(
      html`<b>${some(names)}</b>: recorded as up again`,
      "Their events end, and held hosts may go on",
    ),
    button: () => `Mark ${names.length} restored`,
    presets: ["repaired by hand", "it was never down", "checked with the tenant"],
  });

/** @param {string[]} vms */
export const redeploy = (vms) =>
  ask({
    title: `Redeploy ${vms.length === 1 ? vms[0] : count(vms.length, "VM")} elsewhere?`,
    path: "/v1/redeploy",
    body: { vms },
    effect: says(
      html`<b>${some(vms)}</b>: started again on another host with room`,
      "Local disks and memory are lost",
    ),
    button: () => `Redeploy ${count(vms.length, "VM")}`,
    placeholder: "Such as: host does not answer, 22:29",
  });

/** @param {string} operation @param {"done" | "failed"} outcome @param {string} what */
export const resolve = (operation, outcome, what) =>
  ask({
    title: outcome === "done" ? `Was ${what} done?` : `Did ${what} fail?`,
    path: "/v1/resolve",
    body: { operation, outcome },
    effect: says(
      html`<b class="mono">${operation}</b> is recorded as ${outcome}. Look first: the service does
        not check it`,
      outcome === "done"
        ? "Its events end, and the next work may start"
        : "Its VMs run where they were; it can be tried again",
    ),
    button: () => (outcome === "done" ? "It was done" : "It failed"),
    placeholder: "Such as: virsh list on c1-r04-10 shows it",
  });

/**
 * What can end a problem, as buttons: label and call. Commands without a button here are
 * for the command line.
 * @param {any} problem
 * @param {any} campaign The campaign of the problem, if it has one.
 * @returns {[string, () => void][]}
 */
export function remedies(problem, campaign) {
  /** @type {Record<string, [string, () => void] | false>} */
  const known = {
    restore: ["Mark restored…", () => restore(problem.vms.length ? problem.vms : problem.hosts)],
    redeploy: ["Redeploy elsewhere…", () => redeploy(problem.vms)],
    // Each who may stop may put it on.
    "brake off": hasRole("emergency") && ["Brake off…", () => orders.brake(false)],
    "campaign resume": campaign && ["Resume…", () => orders.resume(campaign)],
    "campaign abort": campaign && ["Abort…", () => orders.abort(campaign)],
    "campaign retry": campaign && ["Retry…", () => orders.retry(campaign, problem.hosts)],
    "campaign skip": campaign &&
      problem.hosts.length > 0 && ["Skip…", () => orders.skip(campaign, problem.hosts)],
    "campaign approve": campaign && ["Approve…", () => orders.approveStage(campaign)],
    approve: problem.events.length > 0 && [
      "Approve…",
      () => orders.approve(problem.events, some(problem.tenants), problem.vms.length),
    ],
    cancel: problem.operation && [
      "Cancel…",
      () => orders.cancel(problem.operation, problem.target ?? problem.operation),
    ],
    "visit retry": ["Retry…", () => visit("retry", problem.hosts)],
    "visit skip": ["Skip…", () => visit("skip", problem.hosts)],
    "host open": ["Open…", () => open(problem.hosts)],
  };
  const verb = (/** @type {string} */ action) =>
    action.startsWith("brake") ? "brake" : action.replace(" ", "-");
  return problem.actions
    .filter((/** @type {string} */ each) => mayOrder(verb(each)))
    .map((/** @type {string} */ each) => known[each])
    .filter(Boolean);
}
