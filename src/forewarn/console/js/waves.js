// The waves of a campaign: values in, a template out. A plan shows them as a campaign does.

import { html, nothing } from "./lit.js";
import { count, number } from "./text.js";
import * as time from "./time.js";

/** Words for the width of a wave. @param {number} hosts @param {number} whole */
const width = (hosts, whole) =>
  `w${Math.max(2, Math.min(12, Math.round((12 * hosts) / Math.max(1, whole))))}`;

/**
 * @param {any} campaign @param {any} stage @param {number} index @param {any} planned
 * @param {Record<string, number>} [states] Attempts of the stage by state.
 */
function wave(campaign, stage, index, planned, states) {
  const place = index + 1;
  const isPast = place < campaign.stage || campaign.state === "Done";
  const isNow = place === campaign.stage && !isPast;
  const name =
    index === 0 && campaign.stages.length > 1 && stage.hosts * 10 <= campaign.hosts
      ? "Stage 1, canary"
      : `Stage ${place}`;
  const soak = stage.soak_seconds ? `soak ${time.roughly(stage.soak_seconds * 1000)}` : "";
  const gate = stage.approval ? (stage.approved ? "approved" : "then approval") : "";
  const later = planned?.needs_approval
    ? `stage ${place + 1} waits for approval`
    : [soak && !isPast ? `then ${soak}` : "", gate].filter(Boolean).join(", ");
  const until = time.at(stage.soaks_until);
  const begins = time.at(planned?.begins);
  return html`<li
    class="${isPast ? "past" : isNow ? "cur" : "fut"} ${width(stage.hosts, campaign.hosts)}"
    aria-current=${isNow ? "step" : nothing}
  >
    <b>${name}${isPast ? " ✓" : ""}</b>${
      isNow
        ? ` · ${number(stage.hosts - stage.left)} of ${number(stage.hosts)} done`
        : !isPast && !Number.isNaN(begins)
          ? ` · ${time.when(begins)}`
          : ""
    }<br />${
      isNow
        ? Number.isNaN(until)
          ? later
          : `soak until ${time.when(until)}`
        : isPast && states
          ? `gate ${number(states.Done ?? 0)}/${number(stage.hosts)}`
          : `${count(stage.hosts, "host")}${later ? ` · ${later}` : ""}`
    }
  </li>`;
}

/**
 * @param {any} campaign
 * @param {any[]} [planned] The stages of its outlook, with their begin.
 * @param {Record<string, Record<string, number>>} [states] Attempts by stage and state.
 */
export const waveList = (campaign, planned, states) =>
  html`<ol class="waves">
    ${campaign.stages.map((/** @type {any} */ stage, /** @type {number} */ index) =>
      wave(campaign, stage, index, planned?.[index], states?.[index + 1]),
    )}
  </ol>`;
