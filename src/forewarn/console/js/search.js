// What is found by the beginning of a name or an ID, and where each thing is shown.

import { get, list } from "./api.js";
import { address, campaignAddress } from "./parts.js";
import { all, state } from "./store.js";

/** Objects of each kind that are shown; the service finds no more at once. */
export const FOUND_MAX = 50;
/** Pages of 1,000 VMs of a tenant that are looked through. */
const VM_PAGES_MAX = 10;

/**
 * @typedef {{kind: string, name: string, title: string, state: string | null,
 *   tenant: string | null, scope: string | null, host: string | null,
 *   cluster: string | null, rack: string | null}} Found
 */

/** @param {string} key @param {string} name @returns {string} All changes of an object. */
export const historyAddress = (key, name) =>
  address("history", ["since", "60d"], ["all", "yes"], [key, name]);

/** Where an object is shown, by its kind. @type {Record<string, (found: Found) => string>} */
const SHOWN = {
  host: ({ name }) => address("hosts", ["host", name]),
  vm: ({ name, host }) =>
    state.session?.tenant
      ? historyAddress("vm", name)
      : address("hosts", ["q", name], ["host", host ?? ""]),
  campaign: ({ name }) => campaignAddress(name),
};

/** @param {Found} found */
export const foundAddress = (found) =>
  SHOWN[found.kind]?.(found) ?? historyAddress(found.kind, found.name);

/** The objects of a tenant, which are few. @param {string} text */
async function ofTenant(text) {
  const { items, more } = await list("/v1/fleet?limit=1000", "vms", VM_PAGES_MAX);
  /** @type {Map<string, any>} */
  const found = new Map();
  const add = (/** @type {string} */ kind, /** @type {string} */ name, /** @type {any} */ what) =>
    name.startsWith(kind === "event" ? text.toUpperCase() : text) &&
    found.set(`${kind} ${name}`, { kind, name, title: name, ...what });
  for (const each of items) add("vm", each.name, { scope: each.scope, state: each.state });
  for (const each of items) if (each.scope) add("scope", each.scope, {});
  for (const each of all("events"))
    add("event", each.EventId, { title: each.EventType, state: each.EventStatus });
  const kinds = ["vm", "scope", "event"].map((kind) =>
    [...found.values()].filter((each) => each.kind === kind),
  );
  return {
    found: kinds.flatMap((each) => each.slice(0, FOUND_MAX)),
    more: more || kinds.some((each) => each.length > FOUND_MAX),
  };
}

/**
 * What begins with a text, and whether there is more.
 * @param {string} text
 * @returns {Promise<{found: Found[], more: boolean}>}
 */
export const search = (text) =>
  state.session?.tenant
    ? ofTenant(text)
    : get(`/v1/search?q=${encodeURIComponent(text)}&limit=${FOUND_MAX}`);
