// Orders about hosts outside of their campaigns: visits and cordons.

import { html, nothing } from "./lit.js";
import { get } from "./api.js";
import { ask, become } from "./dialogs.js";
import { says } from "./effect.js";
import { state } from "./store.js";
import { count, some } from "./text.js";

/** @param {"retry" | "skip"} verb @param {string[]} hosts */
export const visit = (verb, hosts) =>
  ask({
    path: `/v1/visit-${verb}`,
    body: { hosts },
    title: `${verb === "retry" ? "Retry" : "Skip"} the visit of ${some(hosts)}?`,
    effect: says(
      verb === "retry"
        ? "The failed step runs again, with no further notice"
        : "Its steps are left out, and the host is opened",
    ),
    button: () => `${verb === "retry" ? "Retry" : "Skip"} ${count(hosts.length, "host")}`,
  });

/** @param {string[]} hosts */
export const cordon = (hosts) =>
  ask({
    path: "/v1/host-cordon",
    body: { hosts },
    title: `Cordon ${some(hosts)}?`,
    effect: says("No VM is placed there any more; those on it stay"),
    button: () => `Cordon ${count(hosts.length, "host")}`,
  });

/** Hosts whose cordons the dialog names: more are rarely opened at once. */
const NAMED_MAX = 20;

/** @param {string[]} hosts */
export function open(hosts) {
  /** @param {string[]} others Who else has cordoned them. @param {boolean} isAll */
  const opening = (others, isAll) => ({
    body: { hosts, ...(isAll ? { all_owners: true } : {}) },
    effect: says(
      isAll
        ? html`The cordon of <b>${some(others)}</b> ends too`
        : others.length && html`The cordon of <b>${some(others)}</b> stays`,
      (isAll || !others.length) && "VMs can be placed there again",
    ),
    fields: () =>
      others.length
        ? html`<label
            ><input
              type="checkbox"
              .checked=${isAll}
              @change=${() => become(opening(others, !isAll))}
            />
            also of ${some(others)}</label
          >`
        : nothing,
  });
  const load = async () => {
    const found = await Promise.all(
      hosts.slice(0, NAMED_MAX).map((each) => get(`/v1/fleet?host=${encodeURIComponent(each)}`)),
    );
    /** @type {string[]} */
    const owners = found.flatMap(({ hosts }) => hosts[0]?.cordons ?? []).map((each) => each.by);
    const others = [...new Set(owners.filter((each) => each !== state.session?.name))];
    return opening(others, others.length > 0 && others.length === new Set(owners).size);
  };
  ask({
    ...opening([], false),
    path: "/v1/host-open",
    title: `Open ${some(hosts)}?`,
    button: () => `Open ${count(hosts.length, "host")}`,
    placeholder: "Such as: DIMM replaced",
    load,
  });
}
