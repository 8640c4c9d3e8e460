// The checks that have halted a campaign: their answers, and the button that asks them again.

import { html, nothing } from "../lit.js";
import { post } from "../api.js";
import { errorNote, marked, mayOrder, moment } from "../parts.js";
import { changed } from "../store.js";
import * as time from "../time.js";

/** The service asks a check for so long at most, and then answers that it is unknown. */
const ANSWER_MS = 120_000;

let isAsking = false;
/** @type {Error | null} */
let error = null;

/**
 * Ask the checks now. It changes nothing: a halted campaign goes on when it is resumed.
 * @param {any[]} failing @param {() => void} whenDone
 */
async function askAgain(failing, whenDone) {
  isAsking = true;
  error = null;
  changed({ now: true });
  const path = (/** @type {string} */ name) => `/v1/checks/${encodeURIComponent(name)}/run`;
  try {
    await Promise.all(
      failing.map(({ name }) => post(path(name), {}, undefined, undefined, ANSWER_MS)),
    );
  } catch (found) {
    error = /** @type {Error} */ (found);
  }
  isAsking = false;
  whenDone();
  changed({ now: true });
}

/** Who may plan campaigns may ask checks. @param {any[]} failing @param {() => void} whenDone */
export const checkAgain = (failing, whenDone) =>
  failing.length && mayOrder("campaigns/plan")
    ? html`<button ?disabled=${isAsking} @click=${() => askAgain(failing, whenDone)}>
        ${isAsking ? "Asking…" : "Check again"}
      </button>`
    : nothing;

/** @param {any[]} checks The checks of the campaign, if one of them has halted it. */
export const answers = (checks) =>
  html`${checks.map(
    (each) =>
      html`<p class="what">
        Check <b>${each.name}</b>:
        ${each.outcome === "pass" ? "passes" : html`<b class="bad">${each.outcome}</b>`}${
          each.reason ? html`, ${marked(each.reason)}` : nothing
        }${each.asked ? html` · asked ${moment(time.at(each.asked), time.second)}` : nothing}
      </p>`,
  )}${error ? errorNote(error) : nothing}`;
