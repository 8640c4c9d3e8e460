// When open campaigns are expected to end and how many of their hosts are in work, as the service
// tells it, for the cards of campaigns.

import { resource } from "../store.js";

/** More cards do not fit into a window, and each campaign is one more request. */
const CAMPAIGNS_MAX = 12;
/** The service updates it only so often. */
const PAUSE_MS = 10_000;

/** @type {Map<string, import("../store.js").Resource>} */
const kept = new Map();

/** @param {string} id */
function outlookOf(id) {
  let found = kept.get(id);
  if (!found)
    kept.set(
      id,
      (found = resource(`/v1/campaigns/${encodeURIComponent(id)}/outlook`, {
        topics: ["campaigns"],
        pause: PAUSE_MS,
      })),
    );
  return found;
}

/** What a page with cards of these campaigns uses. @param {any[]} campaigns */
export const etas = (campaigns) =>
  campaigns
    .filter((each) => !each.ended)
    .slice(0, CAMPAIGNS_MAX)
    .map((each) => outlookOf(each.campaign));

/**
 * The expected end in RFC 3339; null: it is not known.
 * @param {string} id
 * @returns {string | null}
 */
export const etaOf = (id) => kept.get(id)?.value?.eta.at ?? null;

/**
 * The number of its hosts that are in work; 0: it is not known yet.
 * @param {string} id
 * @returns {number}
 */
export const runningOf = (id) => kept.get(id)?.value?.counts.running ?? 0;
