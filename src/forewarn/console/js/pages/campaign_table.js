// The hosts of a campaign as a table: for a screen reader, a narrow screen and a printer.

import { html, repeat } from "../lit.js";
import { moment } from "../parts.js";
import { isOnPaper } from "../printing.js";
import { count, number } from "../text.js";
import { standing } from "../timeline_rows.js";
import * as time from "../time.js";

/** Rows that are shown; a filter finds the others. */
const ROWS_MAX = 500;

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
    <td data-l=${host.state === "done" ? "done" : "expected"}>${moment(ended, time.minute)}</td>
  </tr>`;
}

/**
 * @param {any[]} hosts
 * @param {number} whole Hosts of the campaign.
 * @param {(host: string) => void} select
 */
export const hostTable = (hosts, whole, select) =>
  html`<div class="scrollx">
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
          <th>Done, expected</th>
        </tr>
      </thead>
      <tbody>
        ${repeat(
          hosts.slice(0, ROWS_MAX),
          (each) => each.host,
          (each) => row(each, select),
        )}
      </tbody>
    </table>
    ${
      whole > Math.min(hosts.length, ROWS_MAX)
        ? html`<p class="in soft">
            ${count(Math.min(hosts.length, ROWS_MAX), "host")} of ${number(whole)}.
          </p>`
        : ""
    }
  </div>`;
