// The campaigns, the open ones first.

import { html } from "../lit.js";
import { resource } from "../store.js";
import { address, empty, loaded, mayOrder } from "../parts.js";
import { count } from "../text.js";
import { etas } from "./campaign_etas.js";
import { campaignCard } from "./now.js";

const every = resource("/v1/campaigns?all=true&limit=200", { topics: ["campaigns"] });

const newCampaign = () =>
  mayOrder("campaigns/plan") ? html`<a class="btn" href=${address("plan")}>New campaign…</a>` : "";

function view() {
  return html`<h1 class="vh">Campaigns</h1>
    <div class="cols">
      <div class="stack">
        ${loaded(every, ({ campaigns }) => {
          const open = campaigns.filter((/** @type {any} */ each) => !each.ended);
          const ended = campaigns.filter((/** @type {any} */ each) => each.ended).reverse();
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
                ? html`<section class="card" aria-labelledby="ended">
                    <header><h2 id="ended">Ended</h2></header>
                    ${ended.map(campaignCard)}
                  </section>`
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
  uses: () => [every, ...etas(every.value?.campaigns ?? [])],
};
