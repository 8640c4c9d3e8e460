// The feed of the history: what happened at once is one line, and so are the approvals of a
// tenant within a minute, and what one actor did to several tokens.

import { html, nothing, repeat } from "./lit.js";
import { address, moment, timed } from "./parts.js";
import { look } from "./query.js";
import { one, state } from "./store.js";
import { count, some } from "./text.js";
import * as time from "./time.js";

/**
 * The names of what an entry is about.
 * @param {any} entry
 * @param {string} kind Such as host.
 * @returns {string[]}
 */
export const subjects = (entry, kind) =>
  entry.subjects
    .filter((/** @type {string} */ each) => each.startsWith(`${kind}:`))
    .map((/** @type {string} */ each) => each.slice(kind.length + 1));

const APPROVED = "event-approved";

/** Approvals of a tenant, and orders of an actor about tokens, are one line for so long. */
const SPAN_MS = 60_000;

/** @param {any} entry */
const isApproval = (entry) => entry.kind === APPROVED;

/** @param {any} entry */
export const isOfToken = (entry) => entry.about === "token";

/**
 * What entries of one line have in common; empty: nothing.
 * @param {any} entry
 * @param {boolean} isWhole Whether approvals of several operations are several lines.
 */
function commonOf(entry, isWhole) {
  if (isOfToken(entry)) return `${entry.kind}/${entry.actor}`;
  if (!isApproval(entry)) return "";
  const operation = isWhole ? subjects(entry, "operation")[0] : "";
  return `approved/${subjects(entry, "tenant")[0] ?? ""}/${operation}`;
}

/**
 * Entries of one actor at one instant about the same object, as one line; approvals of a tenant
 * also of several VMs, one after the other.
 * @param {any[]} entries The newest first.
 * @param {boolean} [isWhole] Whether approvals of several operations are several lines.
 */
export function grouped(entries, isWhole = false) {
  /** @type {any[][]} */
  const found = [];
  /** @type {Map<string, any[]>} */
  const open = new Map();
  for (const each of entries) {
    const common = commonOf(each, isWhole);
    const others = open.get(common);
    if (common && others && time.at(others[0].at) - time.at(each.at) <= SPAN_MS) {
      others.push(each);
      continue;
    }
    const last = found.at(-1)?.[0];
    const isSame =
      !common &&
      last &&
      last.at === each.at &&
      last.actor === each.actor &&
      (last.kind === each.kind ||
        (placeOf(last) && placeOf(last) === placeOf(each)) ||
        each.about === "order");
    if (isSame) found.at(-1)?.push(each);
    else {
      const group = [each];
      found.push(group);
      if (common) open.set(common, group);
    }
  }
  return found;
}

/**
 * Who did it: of VMs, their tenant.
 * @param {any[]} group
 */
export const whoOf = ([entry, ...others]) =>
  entry.actor_kind === "vm" || others.some((each) => each.actor !== entry.actor)
    ? subjects(entry, "tenant")[0] || entry.actor
    : entry.actor;

/** The VMs of approvals; null: it is another change. @param {any[]} group */
export const approvedVms = (group) =>
  isApproval(group[0]) ? [...new Set(group.flatMap((each) => subjects(each, "vm")))] : null;

/** What was approved, before its VMs. @param {any[]} group */
export const approvedWhat = (group) =>
  `approved ${group.length === 1 ? "its event" : count(group.length, "event")}:`;

/** @param {any} entry */
const placeOf = (entry) =>
  ["event", "scope"].includes(entry.about)
    ? ""
    : (subjects(entry, "host")[0] ?? subjects(entry, "vm")[0] ?? "");

/**
 * Where a name leads: a tenant has no page of hosts.
 * @param {string} name
 * @param {boolean} isHost
 */
const subjectAddress = (name, isHost) =>
  state.session?.tenant
    ? address("history", ["vm", name])
    : address("hosts", [isHost ? "host" : "q", name]);

/** Names with links, if they are few. @param {string[]} names @param {boolean} areHosts */
const linked = (names, areHosts) =>
  names.length > 2
    ? some(names, 2)
    : names.map(
        (each, index) =>
          html`${index ? ", " : ""}<a href=${subjectAddress(each, areHosts)}>${each}</a>`,
      );

/** @param {any[]} group */
function sentence(group) {
  const approved = approvedVms(group);
  if (approved) {
    const reason = group.find((each) => each.why)?.why;
    return html`<span
      >${approvedWhat(group)} ${linked(approved, false)}
      ${reason ? html`<q>${reason}</q>` : nothing}</span
    >`;
  }
  if (group.length > 1 && isOfToken(group[0]))
    return html`<span
      >tokens ${group[0].what_shortly}:
      ${some(
        group.map((each) => each.detail),
        3,
      )}</span
    >`;
  // Of what happened at once, the failure or the last step says the most.
  const entry = group.find((each) => each.failure) ?? group[0];
  const same = group.filter((each) => each.kind === entry.kind);
  const hosts = [...new Set(same.flatMap((each) => subjects(each, "host")))];
  const vms = [...new Set(same.flatMap((each) => subjects(each, "vm")))];
  // Of an open operation, it is known what it is done to.
  const target = one("operations", subjects(entry, "operation")[0] ?? "")?.target_kind;
  const named =
    entry.about === "event" ||
    entry.about === "vm" ||
    !hosts.length ||
    (target === "vm" && vms.length)
      ? vms
      : hosts;
  const words =
    ["operation", "visit", "host", "vm"].includes(entry.about) && named.length
      ? entry.what_shortly
      : entry.what;
  const links = linked(named, named === hosts);
  const said = entry.failure ? html`<span class="bad">${words}</span>` : words;
  const detail = entry.detail.split("\n")[0] ?? "";
  const tells = detail && !detail.endsWith(named[0] ?? "\0") ? `: ${timed(detail)}` : "";
  const why = group.find((each) => each.why && !detail.endsWith(each.why))?.why;
  return html`<span
    >${links}${named.length ? " " : ""}${said}${tells} ${why ? html`<q>${why}</q>` : nothing}</span
  >`;
}

/**
 * When it was: in the activity of a campaign, a link to the timeline of then.
 * @param {any} entry
 */
const clock = (entry) =>
  /\/campaigns\/[^/]+$/.test(location.pathname)
    ? html`<a
        class="then"
        href="?at=${entry.at}"
        @click=${(/** @type {Event} */ event) => {
          event.preventDefault();
          look({ at: entry.at });
        }}
        >${moment(time.at(entry.at), time.second)}</a
      >`
    : moment(time.at(entry.at), time.second);

/** @param {any[][]} groups */
const lines = (groups) =>
  html`<ol class="feed">
    ${repeat(
      groups,
      (group) => group[0].id,
      (group) =>
        html`<li>
          ${clock(group[0])}<span
            class="who"
            title=${[...new Set(group.map((each) => each.actor))].join(", ")}
            >${whoOf(group)}</span
          >${sentence(group)}
        </li>`,
    )}
  </ol>`;

/** The latest changes. @param {any[]} entries The newest first. @param {number} most Lines. */
export const feed = (entries, most) => lines(grouped(entries).slice(0, most));

/** All changes, with each operation in a line of its own. @param {any[]} entries */
export const wholeFeed = (entries) => lines(grouped(entries, true));
