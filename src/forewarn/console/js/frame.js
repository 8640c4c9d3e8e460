// What surrounds each page: header, navigation, the live mark, and what concerns all pages.

import { html, nothing } from "./lit.js";
import { all, changed, heardAt, kind, silence, state } from "./store.js";
import { finder } from "./finder.js";
import { isUrgent, needed } from "./needs.js";
import { retryNow } from "./stream.js";
import { BASE } from "./base.js";
import { has, ROUTES } from "./pages.js";
import { timed } from "./parts.js";
import { count } from "./text.js";
import * as time from "./time.js";

const MARK = html`<svg viewBox="0 0 18 18" aria-hidden="true">
  <path
    d="M2 3l6 6-6 6M9 3l6 6-6 6"
    fill="none"
    stroke="currentColor"
    stroke-width="2.4"
    stroke-linejoin="round"
  />
</svg>`;

export const brand = html`<a class="brand" href=${BASE}>${MARK}forewarn</a>`;

/**
 * @param {import("./pages.js").Route} each
 * @param {import("./pages.js").Route | undefined} current
 */
const isCurrent = (each, current) =>
  each === current ||
  (!current?.nav && each.href && location.pathname.startsWith(`${BASE}${each.href}/`));

/** @param {import("./pages.js").Route | undefined} current */
function navigation(current) {
  const waiting = needed();
  const shown = ROUTES.filter((each) => each.nav && has(each, kind()));
  return html`<nav aria-label="Pages">
    ${shown.map(
      (each) =>
        html`<a href=${BASE + each.href} aria-current=${isCurrent(each, current) ? "page" : nothing}
          >${each.nav}${
            each.nav === "Now"
              ? html` <span class="count ${waiting ? (isUrgent() ? "urgent" : "") : "calm"}"
                  >${waiting}<span class="vh"> need you</span></span
                >`
              : nothing
          }</a
        >`,
    )}${kind() === "simulator" ? html`<a href="/docs">API</a>` : nothing}
  </nav>`;
}

function live() {
  const { mode, at } = state.link;
  const age = (Date.now() - at) / 1000;
  const word = mode === "live" ? "live ·" : mode === "stale" ? "stale ·" : "";
  const text =
    mode === "connecting" || !at
      ? "connecting"
      : `${age < 10 ? age.toFixed(1) : Math.floor(age)} s`;
  return html`<span class="live ${mode}" title="Age of the last message"
    ><i class=${mode === "live" ? "pulse" : ""}></i
    ><span class="hide-n">${word}</span> ${text}</span
  >`;
}

function who() {
  const session = state.session;
  if (!session) return nothing;
  if (kind() === "simulator") return html`<span class="soft nw">simulation, no login</span>`;
  if (session.identified_by === "nothing")
    return html`<span class="soft nw">loopback, no token</span>`;
  const right = session.tenant
    ? `tenant ${session.tenant}`
    : session.read_only
      ? "read-only"
      : "operator";
  const expires = session.expires ? `. Until ${time.when(time.at(session.expires))}` : "";
  const text = `${session.name} · ${right}`;
  return session.identified_by === "session"
    ? html`<details class="who">
        <summary class="soft nw" title="${text}${expires}">${text}</summary>
        <button class="small" @click=${() => dispatchEvent(new Event("log-out"))}>Log out</button>
      </details>`
    : html`<span class="soft nw who">${text}</span>`;
}

function switchZone() {
  time.switchZone();
  changed({ now: true });
}

/** @param {import("./pages.js").Route | undefined} current */
export const header = (current) =>
  html`<header class="top">
    ${brand}${navigation(current)}<span class="grow"></span> ${finder()} ${live()}<button
      class="quiet mono nw hide-n zone"
      @click=${switchZone}
      title="${time.full(time.now())}. Click: show times in ${
        time.isUtc() ? "your time zone" : "UTC"
      }"
    >
      ${time.second(time.now())} ${time.zoneName()}
    </button>
    ${state.session?.tenant ? nothing : html`<a class="hide-n" href="${BASE}wall">Wall</a>`}${who()}
  </header>`;

/** Notices that concern all pages, the worst first. */
export function notices() {
  const { link, session } = state;
  const brake = all("problems").find((each) => each.kind === "brake");
  const down = all("problems").filter((each) =>
    ["not-ready", "database-lost", "no-leader"].includes(each.kind),
  );
  return html`${
    link.mode === "stale"
      ? html`<div class="note w">
          <span class="vh" role="alert">No update: what is shown can be old.</span
          ><span
            ><b>No update for ${Math.floor(silence() / 1000)} s.</b> ${
              link.at
                ? `Data as of ${time.second(heardAt())}`
                : "No data has arrived since the page was opened, so it cannot show what is down"
            }.
            ${link.why ? `${link.why}. ` : nothing}${
              link.retryAt > Date.now()
                ? `Reconnecting in ${Math.ceil((link.retryAt - Date.now()) / 1000)} s.`
                : "Reconnecting."
            }
            The service still checks all requests.</span
          >
          <button class="small" @click=${retryNow}>Reconnect</button>
        </div>`
      : nothing
  }
  ${
    link.mode !== "stale" && link.why
      ? html`<div class="note w" role="status">
          <span><b>No stream:</b> ${link.why}.</span>
        </div>`
      : nothing
  }
  ${
    state.failure
      ? html`<div class="note e">
          <span role="alert"><b>${state.failure}</b></span>
          <button
            class="small"
            @click=${() => {
              state.failure = "";
              changed({ now: true });
            }}
          >
            OK
          </button>
        </div>`
      : nothing
  }
  ${down.map(
    (each) =>
      html`<div class="note e" role="alert">
        <span
          ><b>The service does not accept orders:</b> ${timed(each.text)}. VMs are answered.</span
        >
      </div>`,
  )}
  ${
    brake
      ? html`<div class="note w" role="status">
          <span
            ><b
              >The brake is on${brake.since ? ` since ${time.when(time.at(brake.since))}` : ""}.</b
            >
            ${timed(brake.text)}</span
          >
        </div>`
      : nothing
  }
  ${
    state.newVersion
      ? html`<div class="note" role="status">
          <span
            ><b>The service is now version ${state.newVersion}.</b> This page is of an older
            one.</span
          >
          <button class="small" @click=${() => location.reload()}>Reload</button>
        </div>`
      : nothing
  }
  ${
    session?.read_only
      ? html`<div class="note" role="status">
          <span><b>Read-only token.</b> It cannot give orders, so no buttons are shown.</span>
        </div>`
      : nothing
  }`;
}

// What is read aloud: at most one sentence in 10 s, about what needs a person.

const QUIET_MS = 10_000;
let saidAt = 0;
let said = "";
/** @type {Set<string> | null} */
let known = null;

export function announcement() {
  const ids = all("problems").map((each) => each.problem);
  if (!state.isReady) return "";
  const fresh = known ? all("problems").filter((each) => !known?.has(each.problem)) : [];
  if (known && fresh.length && Date.now() - saidAt < QUIET_MS) return said;
  if (fresh.length === 1) said = fresh[0].text;
  else if (fresh.length) said = `${count(fresh.length, "new problem")}, such as: ${fresh[0].text}`;
  if (fresh.length) saidAt = Date.now();
  known = new Set(ids);
  return said;
}
