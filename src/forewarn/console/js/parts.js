// Parts that several pages have: pills, bars, legends, empty and waiting lists.

import { html, nothing, svg } from "./lit.js";
import { isRefusal, NoAnswer, Refused } from "./api.js";
import { BASE } from "./base.js";
import { state } from "./store.js";
import { number } from "./text.js";
import * as time from "./time.js";

/** A list is said to be loading only after this time: a flash of it would only disturb. */
const PATIENCE_MS = 300;

/** @param {"run" | "wait" | "err" | "fine" | "idle"} kind @param {string} text */
export const pill = (kind, text) => html`<span class="pill ${kind}">${text}</span>`;

/**
 * The form of a campaign's state.
 * @type {Record<string, "run" | "wait" | "err" | "fine" | "idle">}
 */
const CAMPAIGN_FORMS = {
  Running: "run",
  Paused: "wait",
  Halted: "err",
  Done: "fine",
  Aborted: "idle",
};

/** @param {any} campaign */
export const campaignPill = (campaign) =>
  pill(CAMPAIGN_FORMS[campaign.state] ?? "idle", campaign.state);

/**
 * Whether the caller's roles admit an order, as the service says; without a name, any order.
 * What an order is about can be refused all the same.
 * @param {string} [name] Such as campaign-pause.
 */
export function mayOrder(name) {
  const known = state.session?.orders ?? [];
  return name ? known.includes(name) : known.length > 0;
}

/** @param {string} name Such as emergency. */
export const hasRole = (name) => state.session?.roles.includes(name) ?? false;

/** @param {...[any, any]} query */
export const address = (/** @type {string} */ path, ...query) => {
  const text = query
    .filter(([, value]) => value)
    .map((each) => each.map((/** @type {string} */ one) => encodeURIComponent(one)).join("="));
  return BASE + path + (text.length ? `?${text.join("&")}` : "");
};

/** @param {string} name */
export const hostLink = (name) => html`<a href=${address("hosts", ["host", name])}>${name}</a>`;

/** @param {string} name @param {string} [host] The host whose details are open. */
export const campaignAddress = (name, host = "") =>
  address(`campaigns/${encodeURIComponent(name)}`, ["host", host]);

/** @param {number} instant */
export const moment = (instant, show = time.when) =>
  html`<time
    datetime=${Number.isNaN(instant) ? nothing : new Date(instant).toISOString()}
    title=${time.full(instant)}
    >${show(instant)}</time
  >`;

/**
 * A bar of the shares of a whole.
 * @param {[string, number, string][]} shares Class, number and word of each.
 * @param {number} whole
 */
export function bar(shares, whole) {
  let x = 0;
  const shown = shares.filter(([, value]) => value > 0);
  const label =
    shown.map(([, value, word]) => `${number(value)} ${word}`).join(", ") || "nothing yet";
  return html`<svg class="bar" role="img" aria-label="${label} of ${number(whole)}">
    ${shown.map(([form, value]) => {
      const width = (100 * value) / Math.max(whole, 1);
      const found = svg`<rect class=${form} x="${x}%" width="${width}%" height="10"
        stroke="none"/>`;
      x += width;
      return found;
    })}
  </svg>`;
}

/** How much of a notice is over. @param {number} share From 0 to 1. @param {string} form */
export const little = (share, form) =>
  html`<span class="left"
    ><svg aria-hidden="true">
      <rect class="s-gone" width="84" height="6" rx="3" />
      <rect class=${form} width=${Math.round(84 * share)} height="6" rx="3" stroke="none" /></svg
  ></span>`;

const FORMS = [
  ["s-noticed", "announced"],
  ["s-held", "ready, held"],
  ["s-impact", "impacting"],
  ["s-recover", "recovering"],
  ["s-done", "done"],
  ["s-failed", "failed"],
  ["s-planned", "planned"],
  ["s-hatch", "blackout"],
];

export const hatch = html`<svg class="defs" aria-hidden="true">
  <defs>
    <pattern
      id="hatch"
      width="6"
      height="6"
      patternUnits="userSpaceOnUse"
      patternTransform="rotate(45)"
    >
      <line class="hatch" y2="6" />
    </pattern>
  </defs>
</svg>`;

/**
 * Forms of a drawing with what they mean.
 * @param {string[][]} forms
 */
export const swatches = (forms) =>
  forms.map(
    ([form, word]) =>
      html`<span
        ><svg aria-hidden="true">
          <rect x=".5" y=".5" width="17" height="9" rx="2" class=${form} /></svg
        >${word}</span
      >`,
  );

export const notBeforeLine = html`<span
  ><svg aria-hidden="true"><line class="nb" x1="9" y1="0" x2="9" y2="10" /></svg>NotBefore</span
>`;

export const legend = html`<div class="legend" role="group" aria-label="Legend">
  ${hatch}${swatches(FORMS)}${notBeforeLine}
</div>`;

const INSTANT = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** A sentence of the service, with its instants as those of the page. @param {string} text */
export const timed = (text) => text.replace(INSTANT, (each) => time.when(time.at(each)));

/** The same, and its commands as such. @param {string} text */
export const marked = (text) =>
  text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : timed(part)));

/** @param {any} title @param {any} text */
export const empty = (title, text) => html`<div class="empty"><b>${title}</b>${text}</div>`;

/**
 * Only a refusal is read aloud: of a service that is away, the notice above all pages says it once.
 * @param {Error} error
 */
export function errorNote(error) {
  if (error instanceof NoAnswer)
    return html`<div class="note w">
      <span><b>The service does not answer.</b> What is shown can be old.</span>
    </div>`;
  const hint = error instanceof Refused ? error.hint : "";
  return html`<div class="note e" role=${isRefusal(error) ? "alert" : nothing}>
    <span
      ><b>${isRefusal(error) ? "Refused" : "Not read"}: ${timed(error.message)}.</b>
      ${marked(hint)}</span
    >
  </div>`;
}

/**
 * A fetched list, or what is shown instead of it.
 * @param {import("./store.js").Resource} resource
 * @param {(value: any) => any} show
 */
export function loaded(resource, show) {
  if (resource.value !== undefined)
    return html`${resource.error ? errorNote(resource.error) : nothing}${show(resource.value)}`;
  if (resource.error) return html`<div class="in">${errorNote(resource.error)}</div>`;
  return Date.now() - resource.since > PATIENCE_MS ? loading : nothing;
}

export const loading = html`<div class="in" aria-busy="true">
  <span class="vh">Loading</span><span class="sk h"></span><span class="sk"></span
  ><span class="sk"></span>
</div>`;

/** A time of which the hour is large, and the day small: "Wed 00:13". @param {number} at */
export function hourOf(at) {
  const words = time.when(at).split(" ");
  const hour = words.pop();
  return html`${words.length ? html`<small>${words.join(" ")}</small> ` : nothing}${hour}`;
}
