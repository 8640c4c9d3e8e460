// The campaigns that were read and those that the stream has brought, for the page of campaigns and
// that of their reports.

import { html, nothing } from "./lit.js";
import { backwards } from "./backwards.js";
import { all } from "./store.js";
import { number } from "./text.js";

/** Campaigns that are read at once. */
const STEP = 50;

export const every = backwards({ path: "/v1/campaigns?all=true", key: "campaigns", enough: STEP });

/** Those that were read, and those that the stream has brought; the newest first. */
export function known() {
  const found = new Map();
  for (const each of [...(every.value?.items ?? []), ...all("campaigns")])
    found.set(each.campaign, each);
  return [...found.values()].sort((one, other) => (one.created < other.created ? 1 : -1));
}

/**
 * How many there are, with those that began after the answer of the service.
 * @param {{items: any[], answer: any}} value What was read.
 */
export function total({ items, answer }) {
  const last = items[0]?.created ?? "";
  return answer.total + all("campaigns").filter((each) => each.created > last).length;
}

/**
 * The button that reads older ones.
 * @param {ReturnType<typeof backwards>} list The list that it belongs to.
 * @param {number} left Campaigns that have not been read.
 */
export const olderButton = (list, left) =>
  list.value.next
    ? html`<div class="in">
        <button ?disabled=${list.isBusy()} @click=${list.more}>
          ${list.isBusy() ? "Loading…" : `Show ${number(Math.min(STEP, left))} more`}
        </button>
      </div>`
    : nothing;
