// Each order of the pages: its question, what it means, and what it sends. The verbs are
// those of the command line.

import { html } from "./lit.js";
import { ask } from "./dialogs.js";
import { says } from "./effect.js";
import { missingOf } from "./missing_events.js";
import { state } from "./store.js";
import { count, number, some } from "./text.js";
import * as time from "./time.js";

/** Who stops in a hurry says no more: the history must not have a reason that nobody gave. */
const NO_REASON = "no reason given";
const NOTHING_STARTS = "Nothing new starts. Announced hosts go on.";

/** Scopes that the dialog of an approval names. */
const PREPARING_SHOWN = 4;

/** @param {any} scope @param {number} index */
const stillPreparing = ({ vms, since, last_poll }, index) =>
  html`${index ? "; " : ""}<b>${some(vms, 3)}</b> for ${time.roughly(time.now() - time.at(since))},
    ${last_poll ? `polled ${time.ago(time.at(last_poll))}` : "not polled yet"}`;

/** @param {string} tenant @param {string} [rollout] Only events of its operations. */
export function approveFor(tenant, rollout = "") {
  const load = async () => {
    const { open, more, wait } = await missingOf(tenant, rollout);
    const vms = new Set(open.flatMap((each) => each.vms));
    return approval(
      open.map((each) => each.EventId),
      tenant,
      vms.size,
      more,
      wait?.preparing ?? [],
    );
  };
  ask({
    title: `Approve for ${tenant}?`,
    path: "/v1/approve",
    body: {},
    effect: () => ["Reading the events…"],
    button: () => "Approve",
    load,
  });
}

/** @param {string[]} ids @param {string} tenant @param {number} vms */
export const approve = (ids, tenant, vms) => ask(approval(ids, tenant, vms));

/**
 * @param {string[]} ids
 * @param {string} tenant
 * @param {number} vms
 * @param {boolean} [more] Whether there are events besides these.
 * @param {any[]} [preparing] Scopes whose agents have not approved.
 */
const approval = (ids, tenant, vms, more = false, preparing = []) => ({
  title: `Approve ${count(ids.length, "event")} for ${tenant}?`,
  path: "/v1/approve",
  body: { event_ids: ids },
  effect: says(
    more &&
      html`<b class="warn">There are more events than are approved at once</b>: give the order again
        for the rest`,
    html`<b>${count(vms, "VM")}</b> of ${tenant}: their hosts can start before NotBefore, when their
      turn comes`,
    preparing.length
      ? html`Agents that may still prepare are not waited for:
        ${preparing.slice(0, PREPARING_SHOWN).map(stillPreparing)}${
          preparing.length > PREPARING_SHOWN
            ? `, and ${count(preparing.length - PREPARING_SHOWN, "more scope")}`
            : ""
        }`
      : "Agents that still prepare are not waited for",
    `The history and ${tenant} see who has approved, and why`,
  ),
  button: () => `Approve ${count(ids.length, "event")}`,
  placeholder: "Such as: agreed by phone with M. Weber, 22:29",
});

/** @param {boolean} on */
export const brake = (on) =>
  ask({
    title: on ? "Put the brake on?" : "Take the brake off?",
    path: "/v1/brake",
    body: { on },
    effect: says(
      on
        ? "No planned work starts, in no campaign. What has started goes on to its end."
        : "Routine work starts again, as its campaigns allow.",
    ),
    button: () => (on ? "Brake on" : "Brake off"),
    isStop: on,
  });

/** @param {any} campaign @param {string} verb @param {object} [more] */
const steer = (campaign, verb, more = {}) => ({
  path: `/v1/campaign-${verb}`,
  // The service refuses it if somebody has steered the campaign since it was read. Stop always
  // works.
  body: {
    campaign: campaign.campaign,
    ...(campaign.revision && verb !== "halt" ? { revision: campaign.revision } : {}),
    ...more,
  },
});

/** @param {any} campaign */
export const halt = (campaign) =>
  ask({
    ...steer(campaign, "halt"),
    title: `Stop ${campaign.name}?`,
    effect: (effect) =>
      says(
        !effect && "What has not started is cancelled, and its VMs are told",
        !effect && "What has started goes on to its end",
        "Cordoned hosts stay cordoned. It can be resumed",
      )(effect),
    button: (effect) => {
      const waiting = effect?.waiting_hosts ?? campaign.waiting;
      const begun = effect?.cancelled?.hosts ?? effect?.cancelled?.operations ?? 0;
      return begun && waiting
        ? `Stop ${number(begun)} + ${count(waiting, "host")}`
        : `Stop ${count(begun + waiting, "host")}`;
    },
    presets: [NO_REASON, "VMs down", "wrong version", "tenant asked", "room"],
    isStop: true,
    back: "Keep running",
  });

/**
 * A pause of one's own beside that of another operator, who can only end the other.
 * @param {any} other
 */
const takeOver = (other) =>
  other.kind === "campaign-paused" && other.by !== state.session?.name
    ? {
        button: () => "Take over",
        effect: says(
          NOTHING_STARTS,
          html`Your pause is added to that of <b>${other.by}</b>: it waits until both are resumed`,
        ),
      }
    : {};

/** @param {any} campaign */
export const pause = (campaign) =>
  ask({
    ...steer(campaign, "pause"),
    title: `Pause ${campaign.name}?`,
    effect: says(NOTHING_STARTS, "It waits until you resume it"),
    button: () => "Pause",
    presets: ["tenant asked", "to look at it", "shift ends"],
    again: takeOver,
  });

/** What holds the next hosts of a campaign that may go on. @param {any} campaign */
function next(campaign) {
  const stage = campaign.stages[campaign.stage - 1];
  if (!stage || stage.left || campaign.stage === campaign.stages.length)
    return "The next hosts are announced at once, as windows and budgets allow";
  const soaks = time.at(stage.soaks_until);
  const holds = [
    ...(soaks > time.now() ? [`has soaked, until ${time.when(soaks)}`] : []),
    ...(stage.approval && !stage.approved ? ["is approved to go on"] : []),
  ];
  return holds.length
    ? `Stage ${campaign.stage + 1} begins when stage ${campaign.stage} ${holds.join(" and ")}`
    : `Stage ${campaign.stage + 1} begins at once, as windows and budgets allow`;
}

/** @param {any} campaign */
export const resume = (campaign) =>
  ask({
    ...steer(campaign, "resume"),
    title: `Resume ${campaign.name}?`,
    effect: says(next(campaign)),
    button: () => "Resume",
    placeholder: "Such as: cause is repaired",
  });

/**
 * Override a check that fails, until the next stage.
 * @param {any} campaign
 * @param {string} check
 */
export const override = (campaign, check) =>
  ask({
    ...steer(campaign, "resume", { despite: [check] }),
    title: `Resume ${campaign.name} despite ${check}?`,
    effect: says(
      html`The check <b>${check}</b> fails, and is ignored <b>until the next stage</b>`,
      "The next hosts are announced at once, as the budgets allow",
    ),
    button: () => `Resume despite ${check}`,
    placeholder: "Such as: the alert is of another cluster, INC-77",
  });

/** @param {any} campaign */
export const abort = (campaign) =>
  ask({
    ...steer(campaign, "abort"),
    title: `Abort ${campaign.name} for good?`,
    effect: says(
      "As Stop, but it cannot be resumed",
      html`<b>${count(campaign.waiting, "host")}</b> are left out`,
    ),
    button: () => "Abort",
    isStop: true,
    back: "Keep it",
  });

/** @param {any} campaign @param {string[]} hosts */
export const retry = (campaign, hosts) =>
  ask({
    ...steer(campaign, "retry", hosts.length ? { hosts } : { failed: true }),
    title: `Retry ${hosts.length ? some(hosts) : "all failed hosts"}?`,
    effect: says(
      "A failed step is repeated at once, without a new notice",
      "A host that failed before its work has begun is announced again, with a new notice, when " +
        "its turn comes",
    ),
    button: () => `Retry ${hosts.length ? count(hosts.length, "host") : "all"}`,
    placeholder: "Such as: DIMM replaced",
  });

/** @param {any} campaign @param {string[]} hosts */
export const skip = (campaign, hosts) =>
  ask({
    ...steer(campaign, "skip", { hosts }),
    title: `Skip ${some(hosts)}?`,
    effect: says(
      `${campaign.name} goes on without ${hosts.length === 1 ? "it" : "them"}`,
      "The budget place is free again",
      hosts.length === 1
        ? "If it is cordoned, it stays so until somebody opens it, on its page"
        : "Those that are cordoned stay so until somebody opens them, on their pages",
    ),
    button: () => `Skip ${count(hosts.length, "host")}`,
    placeholder: "Such as: DIMM tomorrow",
  });

/**
 * The only stage that an approval can be about: the next, or the first of an emergency.
 * @param {any} campaign
 * @returns {number}
 */
export const stageToApprove = (campaign) =>
  campaign.released ? campaign.stage + 1 : campaign.stage;

const isApproved = (/** @type {any} */ stage) => ({ ...stage, approved: true });

/** @param {any} campaign */
export function approveStage(campaign) {
  const stage = stageToApprove(campaign);
  ask({
    ...steer(campaign, "approve", { stage }),
    title: `Begin stage ${stage} of ${campaign.name}?`,
    effect: says(
      campaign.released
        ? next({ ...campaign, stages: campaign.stages.map(isApproved) })
        : "The emergency begins at once, as its budget allows",
    ),
    button: () => `Approve stage ${stage}`,
    placeholder: "Such as: canary looks well",
  });
}

/** @param {string} operation @param {string} what */
export const cancel = (operation, what) =>
  ask({
    path: "/v1/cancel",
    body: { names: [operation] },
    title: `Cancel ${what}?`,
    effect: says("It has not started: nothing happens to its VMs, and they are told"),
    button: () => "Cancel it",
    back: "Keep it",
  });

/** @param {string} host @param {string[]} vms Its VMs. */
export const expedite = (host, vms) =>
  ask({
    path: "/v1/expedite",
    body: { vms },
    title: `Expedite ${host}?`,
    effect: says(
      "It comes before the hosts of its stage that wait longer. Windows, budgets and halts " +
        "hold it as before",
      "The events of its VMs are approved, at once or with the announcement: agents that " +
        "still prepare are not waited for",
    ),
    button: () => `Expedite ${count(vms.length, "VM")}`,
    placeholder: "Such as: agreed with its tenants",
  });
