// What needs a person: the kinds of problems, and how many rows of Now they are.

import { all } from "./store.js";

/**
 * Words and forms of the kinds of problems; "err": something is down or has failed.
 * @type {Record<string, ["err" | "wait", string]>}
 */
export const KINDS = {
  "vm-down": ["err", "Down"],
  "outcome-unknown": ["err", "Unknown"],
  held: ["wait", "Held"],
  "approval-late": ["wait", "Approval late"],
  "driver-failing": ["err", "Driver fails"],
  "visit-failed": ["err", "Visit failed"],
  "visit-late": ["wait", "Visit late"],
  "campaign-halted": ["err", "Halted"],
  "campaign-failed-hosts": ["err", "Failed hosts"],
  "campaign-waits": ["wait", "Stage waits"],
  "campaign-stalled": ["wait", "Stalled"],
  "no-common-window": ["wait", "No window"],
  blackout: ["wait", "Blackout"],
  "webhook-late": ["wait", "Webhook late"],
  "host-cordoned": ["wait", "Cordoned"],
  "relay-silent": ["wait", "Relay silent"],
  brake: ["wait", "Brake"],
  "shared-host": ["wait", "Shared host"],
  "vms-stopped": ["err", "VMs stopped"],
  "vm-not-running": ["err", "VM does not run"],
};

/** @param {any} problem Whether something is down or has failed. */
export const isBad = (problem) => KINDS[problem.kind]?.[0] === "err";

/** The VMs that are down by a failure, each with its problem. */
export const downVms = () =>
  all("problems")
    .filter((each) => each.kind === "vm-down")
    .flatMap((each) => each.vms.map((/** @type {string} */ vm) => ({ vm, problem: each })));

/** @returns {Set<string>} The names of the VMs that are down by a failure. */
export const downNames = () => new Set(downVms().map((each) => each.vm));

/** The tenants whose approvals are late, as the service judges it. */
export const lateTenants = () =>
  new Set(
    all("problems")
      .filter((each) => each.kind === "approval-late")
      .flatMap((each) => each.tenants),
  );

/** The number of things that need a person. The late approvals of a tenant are one of them. */
export const needed = () =>
  all("problems").filter((each) => each.kind !== "approval-late").length + lateTenants().size;

/** Whether one of them is down or has failed. */
export const isUrgent = () => all("problems").some(isBad);
