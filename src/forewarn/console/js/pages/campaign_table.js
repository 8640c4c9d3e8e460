// The hosts of a campaign as a table: for a screen reader, a narrow screen and a printer.

import { html, nothing, repeat } from "../lit.js";
import { moment } from "../parts.js";
import { isOnPaper } from "../printing.js";
import { changed } from "../store.js";
import { count, number } from "../text.js";
import { standing } from "../timeline_rows.js";
import * as time from "../time.js";

/** Rows that are shown; a filter finds the others. */
const ROWS_MAX = 500;
/** Rows on a narrow screen, before a person asks for more. */
const NARROW_ROWS_MAX = 30;
/** Hosts in these states come first: what needs a person is at the top. */
const FIRST = ["failed", "ready", "impacting", "recovering", "announced", "planned"];
let isWhole = false;

/** @param {any} host */
const rank = ({ state }) => (FIRST.includes(state) ? FIRST.indexOf(state) : FIRST.length);

/** @param {any[]} hosts @param {boolean} isNarrow */
const ordered = (hosts, isNarrow) =>
  [...hosts]
    .sort((one, other) => rank(one) - rank(other))
    .slice(0, isNarrow && !isWhole ? NARROW_ROWS_MAX : ROWS_MAX);

/** @param {any} host @param {string} state */
const begin = (host, state) =>
  time.at(host.segments.findLast((/** @type {any} */ each) => each.state === state)?.from);

/** @param {any} host @param {(host: string) => void} select */
function row(host, select) {
  const { text, form } = standing(host);
  const ended =
    host.state === "done" ? time.at(host.segments.at(-1)?.until) : time.at(host.forecast?.until);
  return html`<tr>
    <th scope="row">
      ${
        isOnPaper()
          ? html`<span class="mono">${host.host}</span>`
          : html`<button class="quiet small mono link" @click=${() => select(host.host)}>
              ${host.host}
            </button>`
      }
    </th>
    <td class="hide-n">${host.rack || host.cluster}</td>
    <td data-l="stage">${host.stage}</td>
    <td>${host.state}</td>
    <td class="${form} ${form ? "b" : ""} wide">${text === host.state ? "" : text}</td>
    <td data-l="announced">${moment(begin(host, "announced"), time.minute)}</td>
    <td data-l="started">${moment(begin(host, "impacting"), time.minute)}</td>
    <td data-l="done">${host.state === "done" ? moment(ended, time.minute) : ""}</td>
    <td data-l="expected">${host.state === "done" ? "" : moment(ended, time.minute)}</td>
  </tr>`;
}

/**
 * @param {any[]} hosts
 * @param {number} whole Hosts of the campaign.
 * @param {(host: string) => void} select
 * @param {boolean} isNarrow
 */
export function hostTable(hosts, whole, select, isNarrow) {
  const rows = isOnPaper() ? hosts.slice(0, ROWS_MAX) : ordered(hosts, isNarrow);
  return html`<div class="scrollx hosts-box">
    <table class="flow hosts-table">
      <thead>
        <tr>
          <th>Host</th>
          <th class="hide-n">Rack</th>
          <th>Stage</th>
          <th>State</th>
          <th>Step</th>
          <th>Announced</th>
          <th>Started</th>
          <th>Done</th>
          <th>Expected</th>
        </tr>
      </thead>
      <tbody>
        ${repeat(
          rows,
          (each) => each.host,
          (each) => row(each, select),
        )}
      </tbody>
    </table>
    ${
      whole > rows.length
        ? html`<div class="in acts">
            <span class="soft">${count(rows.length, "host")} of ${number(whole)}</span>
            ${rows.length < Math.min(hosts.length, ROWS_MAX) ? more : nothing}
          </div>`
        : nothing
    }
  </div>`;
}

const more = html`<button
  class="noprint"
  @click=${() => {
    isWhole = true;
    changed({ now: true });
  }}
>
  Show more
</button>`;
