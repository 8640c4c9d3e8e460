// The reports of all campaigns: a line for each, the newest first.

import { html } from "../lit.js";
import { every, known, olderButton, total } from "../campaign_list.js";
import { address, campaignPill, empty, loaded } from "../parts.js";
import { count, number } from "../text.js";
import * as time from "../time.js";

/** @param {any} each */
function line(each) {
  const begin = time.at(each.created);
  const end = time.at(each.ended);
  const bad = each.failed.length + each.skipped;
  return html`<tr>
    <th scope="row">
      <a class="b" href=${address(`campaigns/${encodeURIComponent(each.campaign)}/report`)}
        >${each.name}</a
      >
      ${campaignPill(each)}
    </th>
    <td class="hide-n">${each.reason}</td>
    <td class="nw hide-n" title=${time.full(begin)}>${time.when(begin)}</td>
    <td class="nw" title=${each.ended ? time.full(end) : ""}>
      ${each.ended ? time.when(end) : "so far"}
    </td>
    <td class="num nw">${number(each.done)} of ${number(each.hosts)}</td>
    <td class="num ${bad ? "bad b" : ""}">${number(bad)}</td>
  </tr>`;
}

/** @param {any[]} campaigns */
const table = (campaigns) =>
  html`<div class="scrollx" tabindex="0" role="region" aria-label="Campaigns with a report">
    <table>
      <thead>
        <tr>
          <th scope="col">Campaign</th>
          <th scope="col" class="hide-n">Reason</th>
          <th scope="col" class="hide-n">Began</th>
          <th scope="col">Ended</th>
          <th scope="col" class="num">Hosts done</th>
          <th scope="col" class="num">Failed,<br />skipped</th>
        </tr>
      </thead>
      <tbody>
        ${campaigns.map(line)}
      </tbody>
    </table>
  </div>`;

function view() {
  return html`<h1 class="vh">Reports</h1>
    ${loaded(every, () => {
      const campaigns = known();
      const left = Math.max(0, total(every.value) - campaigns.length);
      return html`<section class="card" aria-labelledby="reports">
        <header><h2 id="reports">${count(campaigns.length + left, "report")}</h2></header>
        ${
          campaigns.length
            ? table(campaigns)
            : empty("No report", "A campaign has one from its start: what it did, and how it went.")
        }
        ${olderButton(every, left)}
      </section>`;
    })}`;
}

/** @type {import("../pages.js").Page} */
export const page = { title: () => "Reports", view, uses: () => [every] };
