// The campaigns: the open ones first, then those that have ended; the newest first.

import { html } from "../lit.js";
import { every, known, olderButton, total } from "../campaign_list.js";
import { address, empty, loaded, mayOrder } from "../parts.js";
import { count, number } from "../text.js";
import { etas } from "./campaign_etas.js";
import { campaignCard } from "./now.js";

const newCampaign = () =>
  mayOrder("campaigns/plan") ? html`<a class="btn" href=${address("plan")}>New campaign…</a>` : "";

/** @param {any[]} ended @param {number} left Campaigns that have not been read. */
const endedCard = (ended, left) =>
  html`<section class="card" aria-labelledby="ended">
    <header>
      <h2 id="ended">Ended</h2>
      <span class="soft"
        >${left ? `${number(ended.length)} of ${number(ended.length + left)}` : ended.length}</span
      >
    </header>
    ${ended.map(campaignCard)} ${olderButton(every, left)}
  </section>`;

function view() {
  return html`<h1 class="vh">Campaigns</h1>
    <div class="cols">
      <div class="stack">
        ${loaded(every, () => {
          const campaigns = known();
          const open = campaigns.filter((each) => !each.ended);
          const ended = campaigns.filter((each) => each.ended);
          return html`<section class="card" aria-labelledby="open">
              <header>
                <h2 id="open">${count(open.length, "open campaign")}</h2>
                <span class="grow"></span>${newCampaign()}
              </header>
              ${open.map(campaignCard)}
              ${
                open.length
                  ? ""
                  : empty(
                      "No campaign runs",
                      html`A campaign says what is done to which hosts, in which order, and when.
                        <p><code>forewarn campaign plan bios.toml</code></p>`,
                    )
              }
            </section>
            ${
              ended.length
                ? endedCard(ended, Math.max(0, total(every.value) - campaigns.length))
                : ""
            }`;
        })}
      </div>
    </div>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => "Campaigns",
  view,
  uses: () => [every, ...etas(known())],
};
