// The console: reads who is here, opens the page of the address, and draws it.
//
// To add a page:
// 1. Write js/pages/NAME.js, which exports `page` (see `Page` in pages.js): a title and a
//    view, which returns a template of lit.js. It reads objects of the stream with
//    `all("problems")` and lists of the API with a `resource`, both of store.js. A view
//    has no effects: it is called up to four times a second.
// 2. Add a line to `ROUTES` in pages.js.
// 3. Give orders only through `ask` of dialogs.js.
// Text of others goes into templates as it is: they escape it. There is no style
// attribute and no inline handler; positions are attributes of SVG.

import { html, render } from "./lit.js";
import { get, onUnknownCaller, Refused } from "./api.js";
import { announcement, header, notices } from "./frame.js";
import { needed } from "./needs.js";
import { keysOfPage } from "./keys.js";
import { drawLogin, logOut, onLogin, useLink } from "./login.js";
import { BASE } from "./base.js";
import { find, ROUTES } from "./pages.js";
import { afterDraw, changed, drawBy, kind, lookAtLists, refreshAll, state, use } from "./store.js";
import { follow, look, onSession, stop } from "./stream.js";
import * as time from "./time.js";

const TOPICS = {
  operator: "campaigns,campaign-hosts,problems,history",
  tenant: "problems,operations,events,upcoming,history",
  simulator: "campaigns,problems,operations,events,history",
};

/** Pause before the session is asked for again, if there was no answer; then twice as long. */
const AGAIN_MS = 2000;
const AGAIN_MS_MAX = 60_000;
let failures = 0;

/**
 * @type {{route: import("./pages.js").Route, params: string[], page: import("./pages.js").Page} |
 *   null}
 */
let shown = null;
let trouble = "";
const app = /** @type {HTMLElement} */ (document.getElementById("app"));

function view() {
  const body = trouble
    ? html`<div class="card empty" role="alert">
        <b>${trouble}</b><a href=${BASE}>To the first page</a>
      </div>`
    : shown
      ? shown.page.view(shown.params)
      : html`<span class="vh" aria-busy="true">Loading</span>`;
  if (shown?.page.isBare) return body;
  if (state.isOut && !state.session) return html`<main id="m"></main>`;
  return html`<a class="skip" href="#m">Skip to content</a>${header(shown?.route)}
    <main id="m" tabindex="-1" class=${state.link.mode === "stale" ? "old" : ""}>
      <div class="notices">${notices()}</div>
      ${body}
    </main>
    <p class="vh" role="status">${announcement()}</p>`;
}

function draw() {
  if (shown) use(shown.page.uses?.(shown.params) ?? []);
  render(view(), app);
  drawLogin();
  mark();
}

/** The title: it counts also while the tab is hidden. */
function mark() {
  const name = shown && !trouble ? shown.page.title(shown.params) : "forewarn";
  const waiting = needed();
  const number = waiting && kind() === "operator" ? `(${waiting}) ` : "";
  const world = kind() === "simulator" ? "simulation: " : "";
  document.title = name === "forewarn" ? name : `${number}${world}${name} · forewarn`;
}

/** Counts the pages that were opened: one that loads more slowly than the next comes too late. */
let opened = 0;

async function open() {
  const mine = ++opened;
  const home = ROUTES.find((each) => each.who === "tenant" && each.nav);
  if (kind() === "tenant" && home && location.pathname === BASE)
    history.replaceState(null, "", BASE + home.href);
  const found = find(location.pathname, kind());
  trouble = found ? "" : "There is no such page";
  if (shown && found?.route === shown.route && String(found.params) === String(shown.params))
    return changed({ now: true });
  shown?.page.leave?.();
  shown = null;
  if (found) {
    try {
      const { page } = await found.route.load();
      if (mine !== opened) return;
      shown = { ...found, page };
      keysOfPage(page.keys);
      page.enter?.(found.params);
    } catch {
      if (mine !== opened) return;
      trouble = "This page cannot be loaded: the service may have a new version. Reload the page";
    }
  }
  changed({ now: true });
}

/** @param {string} href An address of the console. */
export function go(href) {
  history.pushState(null, "", href);
  window.scrollTo(0, 0);
  void open().then(() =>
    afterDraw(() => document.getElementById("m")?.focus({ preventScroll: true })),
  );
}

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (
    !link ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey
  )
    return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(BASE) || link.getAttribute("href")?.startsWith("#")) return;
  event.preventDefault();
  go(link.href);
});
addEventListener("popstate", () => void open());
addEventListener("log-out", () => void logOut());
addEventListener("go", (event) => go(/** @type {CustomEvent} */ (event).detail));

async function enter() {
  try {
    const began = Date.now();
    const session = await get("/v1/session");
    if (session.now)
      time.learn(time.at(session.now) + (Date.now() - began) / 2, (Date.now() - began) / 2);
    const before = state.session;
    // What another caller has seen must not stay in this page.
    if (before && (before.name !== session.name || before.tenant !== session.tenant))
      return location.reload();
    state.session = session;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return out();
    // Nothing can be shown before it is known who looks.
    trouble =
      error instanceof Refused ? `${error.message}. ${error.hint}` : "The service does not answer";
    changed({ now: true });
    return void setTimeout(enter, Math.min(AGAIN_MS_MAX, AGAIN_MS * 2 ** failures++));
  }
  failures = 0;
  state.isOut = false;
  follow(TOPICS[kind()], out, lookAtVersion);
  await open();
  refreshAll();
}

/**
 * After a pause of the stream, the lists are old, and the service can be another version, which
 * this page does not fit.
 */
async function lookAtVersion() {
  refreshAll();
  const session = await get("/v1/session").catch(() => null);
  if (!session?.version || session.version === state.session?.version) return;
  state.newVersion = session.version;
  changed();
}

/** Somebody must log in: what was typed stays, since the page is not loaded again. */
async function out() {
  if (state.isOut) return;
  state.isOut = true;
  stop();
  changed({ now: true });
}

drawBy(draw, mark);
onLogin(enter);
onSession(enter);
onUnknownCaller(out);
setInterval(() => {
  look();
  lookAtLists();
}, 1000);
void useLink().then(async (refusal) => {
  await enter();
  // The form shows it by itself.
  if (!refusal || state.isOut) return;
  state.failure = `The link has logged nobody in: ${refusal}`;
  changed({ now: true });
});
