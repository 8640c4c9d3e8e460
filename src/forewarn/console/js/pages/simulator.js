// The page of a simulation: what each program in a VM is told, and what it sends. Buttons
// act at once, since nothing real is behind them.

import { html, nothing, repeat } from "../lit.js";
import { get } from "../api.js";
import { changed, resource } from "../store.js";
import { empty, loaded, pill } from "../parts.js";
import { count, number } from "../text.js";
import * as time from "../time.js";
import { refusal, send, sent } from "./simulator_orders.js";
import { card } from "./simulator_card.js";
import { lanes } from "./simulator_lanes.js";
import { requests } from "./simulator_requests.js";
import { scenarios } from "./simulator_scenarios.js";

/** The journal is read this often: a client polls once a second. */
const LOOK_MS = 1000;
/** Requests that the page keeps. */
const REQUESTS_MAX = 2000;
/** More VMs than this are a list, with cards for the chosen ones. */
const CARDS_MAX = 12;

/** @type {any[]} Requests of VMs, the oldest first. */
let journal = [];
let seen = 0;
let timer = 0;
/** @type {Set<string>} */
const chosen = new Set();

const every = { topics: ["history", "events", "operations"], pause: 300 };
const vms = resource("/v1/sim/vms", every);
const documents = resource("/v1/sim/documents", every);
const faults = resource("/v1/sim/faults", every);
const timeline = resource("/v1/sim/timeline", every);
const operations = resource("/v1/history/operations?since=10m&limit=500", every);
const clock = resource("/v1/sim/clock", { topics: ["history", "operations"], pause: 300 });
/** Only a simulation of the command line has them. */
const choices = resource("/v1/sim/choices", { topics: [], pause: LOOK_MS });
const news = resource(
  async () => {
    let { requests: found, next } = await get(`/v1/sim/journal?after=${seen}`);
    // The numbers begin again with a new simulation, whose first requests were not asked for.
    if (next < seen) {
      journal = [];
      ({ requests: found, next } = await get("/v1/sim/journal?after=0"));
    }
    seen = next;
    journal = [...journal, ...found].slice(-REQUESTS_MAX);
    return journal;
  },
  { topics: [], pause: LOOK_MS },
);

/** News of the simulation, and each request that says something new. @type {EventSource | null} */
let stream = null;

/** What can have changed with any news. */
function look() {
  for (const each of [vms, documents, faults, timeline, operations, clock, news]) each.refresh();
  if (choices.value) choices.refresh();
}

/** Only a tab in sight follows: a browser has few connections for each server. */
function follow() {
  stream?.close();
  stream = null;
  if (document.visibilityState !== "visible") return;
  stream = new EventSource("/v1/sim/watch");
  // With `ready` and `reset`, there can be news that were missed.
  for (const name of ["ready", "reset", "news", "request"]) stream.addEventListener(name, look);
}

/** Whether it is asked that another world begins. */
let asksReset = false;

/** @param {boolean} value */
function askReset(value) {
  asksReset = value;
  changed({ now: true });
}

const resetNote = () =>
  html`<div class="note w" role="alertdialog" aria-label="Reset?">
    <span
      ><b>Begin another world?</b> The VMs that were added, all events and all requests are
      gone.</span
    ><span class="grow"></span
    ><button
      class="small"
      @click=${() => {
        askReset(false);
        void startWorld("/v1/sim/reset", { reason: "console" });
      }}
    >
      Reset</button
    ><button class="small" @click=${() => askReset(false)}>Keep it</button>
  </div>`;

/** @param {any} now */
function clockCard(now) {
  const turn = (/** @type {string} */ label, /** @type {object} */ body) =>
    html`<button @click=${() => send("/v1/sim/clock", body)}>${label}</button>`;
  const jump = (/** @type {string} */ label, /** @type {string} */ by) =>
    turn(label, { do: "jump", by });
  const speed = now.speed === 1 ? "as fast as real" : `${number(now.speed)} × faster`;
  const next = time.at(now.next);
  return html`<section class="card in" aria-label="Clock">
    <div class="clock in">
      <span class="t">${time.second(time.now())}</span
      >${now.paused ? pill("wait", `paused, ${speed}`) : pill("run", `runs, ${speed}`)}
      <span class="seg" role="group" aria-label="Clock"
        >${
          now.paused ? turn("▶ Resume", { do: "resume" }) : turn("❚❚ Pause", { do: "pause" })
        }${turn("▸| Next timer", { do: "step" })}${jump("+1 min", "1m")}${jump(
          "+15 min",
          "15m",
        )}</span
      >
      <span class="soft" aria-live="off"
        >${now.next ? `next timer ${time.until(next)}` : "no timer is set"}</span
      ><span class="grow"></span>${choosers()} <button @click=${add}>Add a VM</button
      ><button @click=${() => askReset(true)}>Reset…</button>
    </div>
  </section>`;
}

/** A profile begins the simulation again, and so does a scenario. */
function choosers() {
  const found = choices.value;
  if (!found) return nothing;
  const profiles = found.profiles.map(
    (/** @type {string} */ each) =>
      html`<option ?selected=${each === found.profile}>${each}</option>`,
  );
  const scenarios = found.scenarios.map(
    (/** @type {any} */ each) => html`<option title=${each.description}>${each.scenario}</option>`,
  );
  return html`<form class="choose" @submit=${changeProfile}>
      <select name="profile" aria-label="Profile">
        ${profiles}</select
      ><button class="small">Change</button>
    </form>
    ${
      found.playing
        ? pill("run", `plays ${found.playing}`)
        : html`<form class="choose" @submit=${play}>
            <select name="scenario" aria-label="Scenario" required>
              <option value="">Scenario… (${found.scenarios.length})</option>
              ${scenarios}</select
            ><button class="small">Play</button>
          </form>`
    }`;
}

/** @param {Event} event @param {string} name The value of this select in a form that was sent. */
function chosenIn(event, name) {
  event.preventDefault();
  return String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get(name));
}

/** @param {Event} event */
function changeProfile(event) {
  const profile = chosenIn(event, "profile");
  if (profile !== choices.value?.profile) void startWorld("/v1/sim/profile", { profile });
}

/** @param {Event} event */
function play(event) {
  void startWorld("/v1/sim/scenario", { scenario: chosenIn(event, "scenario") });
}

/** The result of a scenario that was played here. */
function judged() {
  const [first, ...rest] = choices.value?.results ?? [];
  return first
    ? html`<div class="note">
        <span><b>${first}</b>${rest.map((/** @type {string} */ each) => html`<br />${each}`)}</span>
      </div>`
    : nothing;
}

/** Send a request that begins another world. @param {string} path @param {object} body */
async function startWorld(path, body) {
  if (!(await send(path, body))) return;
  journal = [];
  seen = 0;
}

function add() {
  const names = new Set((vms.value?.vms ?? []).map((/** @type {any} */ each) => each.vm));
  let place = names.size;
  while (names.has(`web_${place}`)) place++;
  void send("/v1/sim/vms", { name: `web_${place}` });
}

/** @param {string} vm */
const polls = (vm) => journal.filter((each) => each.vm === vm);

/** @param {any[]} list Those that have never asked, in one line each. */
function silent(list) {
  return list.map(
    (each) =>
      html`<div class="note silent">
        ${pill("idle", "silent")}<span
          ><b>${each.vm}</b> has never polled. Start your program with
          <code>FOREWARN_ENDPOINT=${each.url}</code></span
        >${
          choices.value
            ? html`<span class="grow"></span
                ><button class="small" @click=${() => send("/v1/sim/polls", { vm: each.vm })}>
                  Poll as ${each.vm}
                </button>`
            : nothing
        }
      </div>`,
  );
}

/** @param {any[]} list */
function chooser(list) {
  const toggle = (/** @type {string} */ name) => {
    if (!chosen.delete(name)) chosen.add(name);
    changed({ now: true });
  };
  return html`<section class="card" aria-labelledby="sv">
    <header>
      <h2 id="sv">${count(list.length, "VM")}</h2>
      <span class="soft">cards for the chosen ones</span>
    </header>
    <div class="in acts chosen">
      ${list.map(
        (each) =>
          html`<label
            ><input
              type="checkbox"
              .checked=${chosen.has(each.vm)}
              @change=${() => toggle(each.vm)}
            />
            <span class="mono">${each.vm}</span></label
          >`,
      )}
    </div>
  </section>`;
}

function view() {
  const list = (vms.value?.vms ?? []).filter((/** @type {any} */ each) => each.state !== "deleted");
  const isMany = list.length > CARDS_MAX;
  const asked = new Set(journal.map((each) => each.vm));
  const never = list.filter((/** @type {any} */ each) => !asked.has(each.vm));
  const shown = isMany
    ? list.filter((/** @type {any} */ each) => chosen.has(each.vm))
    : list.filter((/** @type {any} */ each) => asked.has(each.vm));
  const told = new Map(
    (documents.value?.documents ?? []).map((/** @type {any} */ each) => [each.vm, each.body]),
  );
  const known = operations.value?.operations ?? [];
  return html`<h1 class="vh">Simulation</h1>
    <div class="stack">
      ${loaded(clock, clockCard)}${asksReset ? resetNote() : nothing}${sent()}${judged()}
      ${isMany ? chooser(list) : nothing}
      ${
        shown.length
          ? html`<div class="stage">
              ${repeat(
                shown,
                (/** @type {any} */ each) => each.vm,
                (/** @type {any} */ each) =>
                  card(each, {
                    text: told.get(each.vm) ?? null,
                    requests: polls(each.vm),
                    operations: known,
                    faults: (faults.value?.faults ?? []).filter(
                      (/** @type {any} */ one) => !one.vms.length || one.vms.includes(each.vm),
                    ),
                  }),
              )}
            </div>`
          : nothing
      }
      ${
        vms.value && !list.length ? empty("No VM", "Add one above.") : nothing
      }${isMany ? nothing : silent(never)}
      ${lanes(isMany ? shown : list, journal, timeline.value?.lanes ?? [], known)}${requests(
        journal,
      )}${scenarios(choices.value, (name) => startWorld("/v1/sim/scenario", { scenario: name }))}
    </div>`;
}

/** @type {import("../pages.js").Page} */
export const page = {
  title: () => count(vms.value?.vms.length ?? 0, "VM"),
  view,
  uses: () => [vms, documents, faults, timeline, operations, clock, choices, news],
  enter() {
    follow();
    document.addEventListener("visibilitychange", follow);
    // Repeated polls are no news, and the picture has a tick for each.
    timer = setInterval(() => {
      news.refresh();
      // The end of a scenario is no news either.
      if (choices.value?.playing) choices.refresh();
    }, LOOK_MS);
  },
  leave() {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", follow);
    stream?.close();
    stream = null;
    refusal.text = "";
    asksReset = false;
  },
};
