// The availability of VMs over a time, by scope and by VM.

import { html, nothing } from "../lit.js";
import { list } from "../api.js";
import { groupedBy } from "../groups.js";
import { downNames } from "../needs.js";
import { resource } from "../store.js";
import { address, empty, loaded } from "../parts.js";
import { asked, look } from "../query.js";
import { number } from "../text.js";
import * as time from "../time.js";

/** @type {[string, string][]} */
const SPANS = [
  ["1d", "1 day"],
  ["7d", "7 days"],
  ["30d", "30 days"],
];
/** VMs that are listed: those that were down the longest. */
const VMS_MAX = 500;

/** @type {Map<string, import("../store.js").Resource>} */
const found = new Map();

/** @param {string} since */
export function availability(since) {
  let mine = found.get(since);
  if (!mine)
    found.set(
      since,
      (mine = resource(() => list(`/v1/availability?since=${since}&limit=1000`, "vms", 20), {
        topics: ["history"],
        pause: 15_000,
      })),
    );
  return mine;
}

/** @param {number} seconds */
const lasting = (seconds) =>
  seconds > 0 && seconds < 1 ? `${seconds.toFixed(1)} s` : time.lasting(seconds * 1000);
/** Never more nines than there were. @param {number} percent */
const percent = (percent) =>
  percent >= 100 ? "100 %" : `${(Math.floor(percent * 1000) / 1000).toFixed(3)} %`;

/** @param {any[]} vms @param {Set<string>} failed The VMs that a failure keeps down. */
function total(vms, failed) {
  const sum = (/** @type {string} */ key) => vms.reduce((all, each) => all + each[key], 0);
  const known = sum("existed_seconds") - sum("unknown_seconds");
  return {
    percent: known > 0 ? 100 * (1 - sum("down_seconds") / known) : NaN,
    planned_seconds: sum("planned_seconds"),
    unplanned_seconds: sum("unplanned_seconds"),
    longest_seconds: Math.max(0, ...vms.map((each) => each.longest_seconds)),
    at_most_seconds: sum("at_most_seconds"),
    down_now: sum("down_now"),
    has_failed: vms.some((each) => failed.has(each.vm)),
  };
}

/** What holds now; work that is planned is no failure. @param {any} each */
const now = (each) =>
  each.has_failed
    ? html`<br /><span class="bad">✕ down</span>`
    : each.down_now
      ? html`<br /><span class="soft">in maintenance</span>`
      : "";

/** @param {string} sign @param {string} words */
const bound = (sign, words) =>
  html`<span aria-hidden="true">${sign} </span><span class="vh">${words} </span>`;

/**
 * The pause of a live migration is only known to be shorter than the migration.
 * @param {any} name @param {any} each
 */
const line = (name, each) =>
  html`<tr>
    <th scope="row">${name}${now(each)}</th>
    <td class="num nw">
      ${
        Number.isNaN(each.percent)
          ? "–"
          : html`${each.at_most_seconds ? bound("≥", "at least") : nothing}${percent(each.percent)}`
      }
    </td>
    <td class="num nw">
      ${each.at_most_seconds ? bound("≤", "at most") : nothing}${lasting(each.planned_seconds)}
    </td>
    <td class="num nw ${each.unplanned_seconds ? "bad b" : ""}">
      ${lasting(each.unplanned_seconds)}
    </td>
    <td class="num nw hide-n">${lasting(each.longest_seconds)}</td>
  </tr>`;

/** @param {string} first @param {any} rows */
const table = (first, rows) =>
  html`<div class="scrollx" tabindex="0" role="region" aria-label="Availability by ${first}">
    <table class="clus">
      <thead>
        <tr>
          <th scope="col">${first}</th>
          <th scope="col" class="num">Up</th>
          <th scope="col" class="num">Planned</th>
          <th scope="col" class="num">Unplanned</th>
          <th scope="col" class="num hide-n">Longest</th>
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </div>`;

const DAY_SECONDS = 86_400;
/** A time that is at most this much shorter than what was chosen is called the chosen one. */
const SHORTER = 0.99;

/**
 * Says for how long the VMs have existed if that is less than what was chosen.
 * @param {any[]} vms
 * @param {string} since
 */
function young(vms, since) {
  const oldest = Math.max(...vms.map((each) => each.existed_seconds));
  return oldest < SHORTER * parseInt(since) * DAY_SECONDS
    ? html`<p class="in soft">
        Of the ${time.lasting(oldest * 1000)} since the oldest of these VMs was created.
      </p>`
    : "";
}

/**
 * The scopes, the worst first.
 * @param {{items: any[]}} value
 * @param {string} since
 * @param {number} [most] How many are shown.
 */
export function scopes({ items }, since, most = Infinity) {
  const failed = downNames();
  const found = [...groupedBy(items, (each) => each.scope)]
    .map(([name, vms]) => ({ name, sums: total(vms, failed) }))
    .sort(
      (one, other) =>
        Number(other.sums.has_failed) - Number(one.sums.has_failed) ||
        other.sums.unplanned_seconds - one.sums.unplanned_seconds ||
        other.sums.planned_seconds - one.sums.planned_seconds,
    );
  const shown = found.slice(0, most);
  return found.length
    ? html`${young(items, since)}${table(
        "Scope",
        shown.map(({ name, sums }) => line(name || "without scope", sums)),
      )}${
        found.length > shown.length
          ? html`<p class="in">
              <a href=${address("availability")}>All ${number(found.length)} scopes</a>
            </p>`
          : ""
      }`
    : empty("No VM has existed yet", "");
}

function view() {
  const since = asked("since") || "7d";
  return html`<h1 class="vh">Availability</h1>
    <div class="stack">
      <section class="card" aria-labelledby="av">
        <header>
          <h2 id="av">Availability</h2>
          <div class="seg" role="group" aria-label="Since">
            ${SPANS.map(
              ([each, word]) =>
                html`<button
                  aria-pressed=${since === each ? "true" : "false"}
                  @click=${() => look({ since: each })}
                >
                  ${word}
                </button>`,
            )}
          </div>
        </header>
        ${loaded(availability(since), (value) => scopes(value, since))}
      </section>
      <section class="card" aria-labelledby="avm">
        <header>
          <h2 id="avm">By VM</h2>
          <span class="soft">those that were down the longest first</span>
        </header>
        ${loaded(availability(since), ({ items, more }) => {
          const failed = downNames();
          const rows = [...items]
            .sort(
              (one, other) =>
                other.unplanned_seconds - one.unplanned_seconds ||
                other.down_seconds - one.down_seconds,
            )
            .slice(0, VMS_MAX);
          return html`${table(
            "VM",
            rows.map((each) =>
              line(html`<span class="mono">${each.vm}</span>`, {
                ...each,
                has_failed: failed.has(each.vm),
              }),
            ),
          )}${
            more || items.length > VMS_MAX
              ? html`<p class="in soft">
                  The first ${number(VMS_MAX)} of ${more ? "more than " : ""}${number(items.length)}
                  VMs.
                </p>`
              : ""
          }`;
        })}
      </section>
    </div>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => "Availability",
  view,
  uses: () => [availability(asked("since") || "7d")],
};
