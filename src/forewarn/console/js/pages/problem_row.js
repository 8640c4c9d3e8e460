// The row of a problem: what it is, what can end it, and a link.

import { html, nothing } from "../lit.js";
import { KINDS } from "../needs.js";
import { marked, pill } from "../parts.js";
import * as remedies from "../remedies.js";
import { campaignNamed } from "../store.js";
import { capital } from "../text.js";

/**
 * @param {any} problem
 * @param {(campaign: any) => any} link Where more is told; of the problem's campaign, if it has one
 *   that is open.
 * @param {any} [since]
 */
export function problemRow(problem, link, since = nothing) {
  const [form, word] = KINDS[problem.kind] ?? ["wait", capital(problem.kind.replaceAll("-", " "))];
  const campaign = problem.campaign && campaignNamed(problem.campaign);
  const buttons = remedies.remedies(problem, campaign);
  return html`<div class="in head case">
    <div class="tell">${pill(form, word)} ${marked(problem.text_shortly)} ${since}</div>
    <span class="grow"></span>
    <div class="acts">
      ${buttons.map(([label, call]) => html`<button @click=${call}>${label}</button>`)}${link(
        campaign,
      )}
    </div>
  </div>`;
}
