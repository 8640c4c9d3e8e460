// The sheet of a report: values in, a template out. The page and the file of
// `campaign report --html` show the same.

import { html, nothing, svg } from "./lit.js";
import { causes } from "./paper_causes.js";
import { campaignPill } from "./parts.js";
import { capital, count, number } from "./text.js";
import * as time from "./time.js";

const HOUR = 3_600_000;
/** Columns of the chart: more would be thinner than their numbers. */
const HOURS_MAX = 24;
/** Width of a column at most, in percent. */
const WIDE = 16;
/** A pause of so many hours parts two nights. */
const PAUSE_HOURS = 4;
/** Height of the tallest column, and where the columns stand, in px. */
const TALL = 86;
const FOOT = 104;
/** Tenants that are named: the two pages have room for them. */
const TENANTS_MAX = 12;
/** @param {number} seconds */
const minutes = (seconds) =>
  seconds < 60 && seconds > 0
    ? `${Math.round(seconds)} s`
    : `${number(Math.round(seconds / 60))} min`;
/** @param {number} seconds */
const lasting = (seconds) =>
  seconds > 0 && seconds < 1 ? `${seconds.toFixed(1)} s` : time.lasting(seconds * 1000);

/** @param {any} value @param {string} word @param {boolean} [isBad] */
const fact = (value, word, isBad) =>
  html`<div><b class=${isBad ? "bad" : ""}>${value}</b>${word}</div>`;

/** @param {any} sums @param {string} kind */
const sum = (sums, kind) =>
  sums.tenants.reduce((/** @type {number} */ all, /** @type {any} */ each) => all + each[kind], 0);

/** @param {any} campaign @param {any} sums */
function facts(campaign, sums) {
  const bad = campaign.failed.length + campaign.skipped;
  const unplanned = sum(sums, "unplanned_down_seconds");
  const several = sums.several_domains_down_count;
  return html`<div class="facts">
    ${fact(
      number(campaign.done),
      `of ${count(campaign.hosts, "host")} done`,
    )}${fact(number(bad), "failed and skipped", bad > 0)}${fact(number(sums.vms), "VMs affected")}
    ${fact(
      minutes(sum(sums, "planned_down_seconds")),
      "VM downtime, planned",
    )}${fact(minutes(unplanned), "VM downtime, unplanned", unplanned > 0)}${fact(
      number(several),
      `${several === 1 ? "scope" : "scopes"} with two fault domains down`,
      several > 0,
    )}
  </div>`;
}

/**
 * Hours with hosts in columns of whole hours, by night.
 * @param {Record<string, number>} found
 */
function columns(found) {
  const hours = Object.entries(found)
    .map(([hour, hosts]) => ({ at: time.at(hour), hosts }))
    .sort((one, other) => one.at - other.at);
  /** @type {(typeof hours)[]} */
  const parts = [];
  for (const hour of hours) {
    const part = parts.at(-1);
    if (part && hour.at - (part.at(-1)?.at ?? 0) <= PAUSE_HOURS * HOUR) part.push(hour);
    else parts.push([hour]);
  }
  const hoursOf = (/** @type {typeof hours} */ part) =>
    ((part.at(-1)?.at ?? 0) - (part[0]?.at ?? 0)) / HOUR + 1;
  const all = parts.reduce((sum, part) => sum + hoursOf(part), 0);
  const step = HOUR * Math.max(1, Math.ceil(all / HOURS_MAX));
  const nights = parts.map((part) => {
    const first = part[0]?.at ?? 0;
    const size = Math.ceil((hoursOf(part) * HOUR) / step);
    const made = Array.from({ length: size }, (_, index) => ({
      at: first + index * step,
      hosts: 0,
    }));
    for (const { at, hosts } of part) {
      const column = made[Math.floor((at - first) / step)];
      if (column) column.hosts += hosts;
    }
    return made;
  });
  return { nights, step };
}

/** @param {Record<string, number>} found */
function chart(found) {
  const { nights, step } = columns(found);
  const made = nights.flat();
  if (!made.length) return html`<p class="soft">No host is done yet.</p>`;
  const most = Math.max(...made.map((each) => each.hosts));
  const width = Math.min(WIDE, 100 / made.length);
  const label = made.map((each) => `${time.when(each.at)} ${each.hosts}`).join(", ");
  const sums = nights.map((night) => night.reduce((sum, each) => sum + each.hosts, 0));
  /** After the columns of the nights before. @param {number} index */
  const begins = (index) => nights.slice(0, index).flat().length * width;
  return html`<svg class="chart" role="img" aria-label="Hosts done: ${label}">
      ${made.map((each, index) => {
        const height = Math.round((TALL * each.hosts) / most);
        const x = index * width;
        return svg`<rect class="s-done" x="${x + 0.1 * width}%" y=${FOOT - height}
          width="${0.8 * width}%" height=${height}/>
        ${
          each.hosts
            ? svg`<text x="${x + width / 2}%" y=${FOOT - 4 - height}
                text-anchor="middle">${number(each.hosts)}</text>`
            : nothing
        }
      <text x="${x + width / 2}%" y="120" text-anchor="middle">${time
        .minute(each.at)
        .slice(0, step < HOUR ? 5 : 2)}</text>`;
      })}
      <line class="grid" x1="0" x2="100%" y1="104.5" y2="104.5" />
      ${nights.map(
        (night, index) =>
          svg`${
            index
              ? svg`<line class="night" x1="${begins(index)}%" x2="${begins(index)}%" y1="4"
                  y2="126"/>`
              : nothing
          }<text class="lab" x="${begins(index) + 0.1 * width}%" y="138">${time.day(
            night[0]?.at ?? NaN,
          )}${nights.length > 1 ? `: ${number(sums[index] ?? 0)}` : ""}</text>`,
      )}
    </svg>
    ${step > HOUR ? html`<p class="soft">Each column is ${step / HOUR} hours.</p>` : nothing}`;
}

/** Events that are over and had no approval. @param {any} tenant */
const never = ({ asked, approved, open = 0 }) => asked - approved - open;

/** @param {any[]} tenants */
const approvals = (tenants) =>
  html`<div class="scrollx" tabindex="0" role="region" aria-label="Approvals by tenant">
    <table class="lines">
      <thead>
        <tr>
          <th scope="col">Tenant</th>
          <th scope="col" class="num">Asked</th>
          <th scope="col" class="num">Approved</th>
          <th scope="col" class="num">By operator</th>
          <th scope="col" class="num">None</th>
          <th scope="col" class="num">Median</th>
          <th scope="col" class="num">Deferred</th>
        </tr>
      </thead>
      <tbody>
        ${tenants.map(
          (each) =>
            html`<tr>
              <th scope="row">${each.tenant || "–"}</th>
              <td class="num" data-l="asked">${number(each.asked)}</td>
              <td class="num" data-l="approved">${number(each.approved)}</td>
              <td class="num" data-l="by operator">${number(each.by_operator)}</td>
              <td class="num ${2 * never(each) > each.asked ? "warn b" : ""}" data-l="none">
                ${number(never(each))}
              </td>
              <td class="num nw" data-l="median">
                ${each.median_seconds === null ? "–" : lasting(each.median_seconds)}
              </td>
              <td class="num" data-l="deferred">${number(each.deferrals ?? 0)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;

/** @param {any[]} tenants */
const downtime = (tenants) =>
  html`<div class="scrollx" tabindex="0" role="region" aria-label="Downtime by tenant">
    <table class="lines">
      <thead>
        <tr>
          <th scope="col">Tenant</th>
          <th scope="col" class="num">VMs</th>
          <th scope="col" class="num">Moved</th>
          <th scope="col" class="num">Were down</th>
          <th scope="col" class="num">Planned</th>
          <th scope="col" class="num">Unplanned</th>
          <th scope="col" class="num">Longest</th>
          <th scope="col">Which</th>
        </tr>
      </thead>
      <tbody>
        ${tenants.map(
          (each) =>
            html`<tr>
              <th scope="row">${each.tenant || "–"}</th>
              <td class="num" data-l="VMs">${number(each.vms ?? 0)}</td>
              <td class="num" data-l="moved">${number(each.vms_moved ?? 0)}</td>
              <td class="num" data-l="were down">${number(each.vms_down)}</td>
              <td class="num nw" data-l="planned">${lasting(each.planned_down_seconds)}</td>
              <td class="num nw ${each.unplanned_down_seconds ? "bad b" : ""}" data-l="unplanned">
                ${lasting(each.unplanned_down_seconds)}
              </td>
              <td class="num nw" data-l="longest">${lasting(each.longest_down_seconds)}</td>
              <td class="mono nw">${each.longest_down_vm ?? ""}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;

/** What was decided about a failed host. @param {any} then */
const decided = (then) =>
  then
    ? html`${capital(then.what)} by ${then.by},
      ${time.when(time.at(then.at))}${then.reason ? html` <q>${then.reason}</q>` : nothing}`
    : "Nothing yet";

/** @param {any} campaign @param {any} sums @param {Link} link */
function failures({ failed }, sums, link) {
  const listed = new Set(sums.failures.map((/** @type {any} */ each) => each.operation));
  // Of a host whose visit failed, the operation itself was completed.
  const visits = failed.filter((/** @type {any} */ each) => !listed.has(each.operation));
  if (!sums.failures.length && !visits.length) return html`<p class="soft">None.</p>`;
  const left = sums.failures_count - sums.failures.length;
  return html`<div class="scrollx" tabindex="0" role="region" aria-label="Failures">
      <table class="lines">
        <thead>
          <tr>
            <th scope="col">Host</th>
            <th scope="col">State</th>
            <th scope="col">What was wrong</th>
            <th scope="col">What was done</th>
            <th scope="col">Operation</th>
          </tr>
        </thead>
        <tbody>
          ${[...sums.failures, ...visits].map(
            (/** @type {any} */ each) =>
              html`<tr>
                <td class="mono nw">${link(each.host, ["host", each.host], ["since", "60d"])}</td>
                <td>${each.state ?? "visit failed"}</td>
                <td class="whole">${capital(each.note ?? each.reason)}</td>
                <td data-l="then">${decided(each.then)}</td>
                <td class="mono nw">
                  ${link(each.operation, ["operation", each.operation], ["since", "60d"])}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${left > 0 ? html`<p class="soft">And ${count(left, "more failure")}.</p>` : nothing}`;
}

/** @param {any} sums @param {Link} link */
function skips(sums, link) {
  const left = sums.skipped_count - sums.skipped.length;
  return html`<div class="scrollx" tabindex="0" role="region" aria-label="Skipped hosts">
      <table class="lines">
        <thead>
          <tr>
            <th scope="col">Host</th>
            <th scope="col">Why it was left out</th>
            <th scope="col">Operation</th>
          </tr>
        </thead>
        <tbody>
          ${sums.skipped.map(
            (/** @type {any} */ each) =>
              html`<tr>
                <td class="mono nw">${link(each.host, ["host", each.host], ["since", "60d"])}</td>
                <td class="whole">${capital(each.reason)}</td>
                <td class="mono nw">
                  ${link(each.operation, ["operation", each.operation], ["since", "60d"])}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${left > 0 ? html`<p class="soft">And ${count(left, "more host")}.</p>` : nothing}`;
}

/** @param {any} campaign */
function stages(campaign) {
  const parts = [
    count(campaign.stages.length, "stage"),
    campaign.actor && `ordered by ${campaign.actor}`,
  ].filter(Boolean);
  return parts.join(" · ");
}

/** @typedef {(text: any, ...query: [string, string][]) => any} Link */

/**
 * @param {{campaign: any, sums: any, at: string}} told
 * @param {Link} [link] Makes a text a link to the history; in a file, there is none.
 */
export function paper({ campaign, sums, at }, link = (text) => text) {
  const begin = time.at(campaign.created);
  const end = time.at(campaign.ended);
  const planned = time.at(campaign.planned_end);
  const domains = sums.several_domains_down;
  const tenants = sums.tenants.slice(0, TENANTS_MAX);
  const rest = sums.tenants.length - tenants.length;
  return html`<article class="paper">
    <header class="head">
      <div class="tell">
        <h1>${campaign.name}</h1>
        <p class="what">
          ${campaign.reason} · ${campaign.impact} · ${count(campaign.hosts, "host")} ·
          ${stages(campaign)}
        </p>
      </div>
      <span class="grow"></span>
      <p class="num soft">
        ${campaignPill(campaign)}<br />${time.full(begin)}${
          Number.isNaN(end) ? ", so far" : html`<br />– ${time.full(end)}`
        }${
          Number.isNaN(planned) ? nothing : html`<br />planned end ${time.full(planned)}`
        }<br />generated ${time.when(time.at(at))}, <span class="mono">${campaign.campaign}</span>
      </p>
    </header>
    ${facts(campaign, sums)}
    <section aria-labelledby="hours">
      <h2 id="hours">Hosts done in each hour</h2>
      ${chart(sums.hours)}
    </section>
    <div class="pair">
      <section aria-labelledby="approvals">
        <h2 id="approvals">Approvals</h2>
        ${approvals(tenants)}
      </section>
      <section aria-labelledby="causes">
        <h2 id="causes">Host hours by cause</h2>
        ${causes(sums)}
      </section>
    </div>
    <section aria-labelledby="downtime">
      <h2 id="downtime">VM downtime</h2>
      ${downtime(tenants)}
    </section>
    ${
      domains.length
        ? html`<p class="soft">
            Two fault domains were down at once of
            ${domains.join(", ")}${
              sums.several_domains_down_count > domains.length
                ? ` and ${number(sums.several_domains_down_count - domains.length)} more`
                : ""
            }.
          </p>`
        : nothing
    }
    ${
      rest > 0
        ? html`<p class="soft">
            The tables have the ${TENANTS_MAX} tenants with the longest downtime;
            ${count(rest, "more tenant")} in the JSON.
          </p>`
        : nothing
    }
    <section aria-labelledby="failures">
      <h2 id="failures">Failures</h2>
      ${failures(campaign, sums, link)}
    </section>
    ${
      sums.skipped.length
        ? html`<section aria-labelledby="skipped">
            <h2 id="skipped">Skipped hosts</h2>
            ${skips(sums, link)}
          </section>`
        : nothing
    }
    <p class="soft">
      Down times are those that the service knew of; a guest’s boot is not in them. Every line of
      the history of this campaign:
      ${link(
        html`<span class="mono">forewarn history --rollout ${campaign.rollout}</span>`,
        ["operation", campaign.rollout],
        ["since", "60d"],
      )}
    </p>
  </article>`;
}
