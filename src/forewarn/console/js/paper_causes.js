// Where the time of the hosts of a campaign went: values in, a template out.

import { html, svg } from "./lit.js";
import { hatch } from "./parts.js";
import * as time from "./time.js";

/** Phases of an attempt, with class and word. @type {[string, string, string][]} */
const PHASES = [
  ["work", "s-impact", "work of the driver"],
  ["approval", "s-noticed", "notice: approvals of tenants, up to NotBefore"],
  ["recovery", "s-recover", "recovery and verification"],
];
/** What hosts waited for besides. @type {[string, string, string][]} */
const WAITS = [
  ["window", "win", "maintenance windows of tenants"],
  ["deferral", "s-held", "deferrals of tenants"],
  ["start", "s-waits", "start: other fault domains, brake or driver"],
  ["soak", "s-done", "soak"],
  ["stage_approval", "s-asked", "approval of a stage by an operator"],
  ["closed", "s-gone", "outside of windows, and in blackouts"],
  ["paused", "s-planned", "paused"],
  ["halted", "s-hatch", "halted"],
  ["failed", "s-failed", "failed, until it was retried or skipped"],
];

/** @param {number | undefined} seconds Host hours; of a short campaign, what they are. */
const spent = (seconds = 0) =>
  seconds < 3600 ? time.roughly(seconds * 1000) : `${(seconds / 3600).toFixed(1)} h`;

/** @param {any} sums */
export function causes({ seconds, waiting_seconds: waits, notice_seconds: notice }) {
  // A service of an earlier version does not split the notice.
  const parts = notice ?? { approval: seconds.notice };
  /** @param {string} name */
  const spentOn = (name) => (seconds[name] ?? 0) + (waits?.[name] ?? 0) + (parts[name] ?? 0);
  const found = [...PHASES, ...WAITS].map(([name, form, word]) => ({
    form,
    word,
    seconds: spentOn(name),
  }));
  const whole = found.reduce((all, each) => all + each.seconds, 0);
  let x = 0;
  return html`${hatch}<svg class="bar tall" role="img" aria-label="Hours by cause, as listed below">
      ${found.map((each) => {
        const width = whole ? (100 * each.seconds) / whole : 0;
        const made = svg`<rect class=${each.form} x="${x}%" width="${width}%" height="20"
          stroke="none"/>`;
        x += width;
        return made;
      })}
    </svg>
    <table class="tight">
      <tbody>
        ${found
          .filter((each, index) => index < PHASES.length || each.seconds)
          .map(
            (each) =>
              html`<tr>
                <td>
                  <svg class="key" aria-hidden="true">
                    <rect class=${each.form} width="12" height="10" />
                  </svg>
                </td>
                <td>${each.word}</td>
                <td class="num nw">${spent(each.seconds)}</td>
              </tr>`,
          )}
      </tbody>
    </table>
    <p class="soft">
      ${
        waits
          ? `Besides, hosts waited ${spent(waits.turn)} for their turn: for budgets, free capacity
            and the hosts before them.`
          : `Hosts waited ${spent(seconds.waiting)} for their turn, before any notice.`
      }
    </p>`;
}
