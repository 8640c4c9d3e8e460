// A new campaign: its file, the plan that the service makes of it, and the order to start it.

import { html, nothing } from "../lit.js";
import { get, newKey, post } from "../api.js";
import { BASE } from "../base.js";
import { campaignAddress, errorNote, mayOrder } from "../parts.js";
import { ask } from "../dialogs.js";
import { planSheet } from "../plan.js";
import { asked } from "../query.js";
import { changed } from "../store.js";
import { capital, count, number } from "../text.js";
import * as timeline from "../timeline.js";

/** A plan of a very large fleet takes minutes. */
const PLAN_MS = 600_000;
/** Pause between two questions about how far the plan is. */
const PROGRESS_MS = 1000;
/** Hosts of a plan that are shown; the command line has all. */
const HOSTS_MAX = 1000;

const EXAMPLE = `[campaign]
name = "bios-2.19"
reason = "CVE-2026-1234"
impact = "reboot"
select = { cluster = "c1" }
budget = { in_flight = 4 }

[[campaign.stage]]
hosts = 2
approval = true
`;

/** The file, which stays while one looks at other pages. */
const file = { name: "campaign.toml", text: "" };
/** @type {{text: string, told: any} | null} */
let made = null;
/** @type {Error | null} */
let error = null;
/** How far the plan is; null: none is being made. @type {any} */
let progress = null;
/** The key of the plan that is being made; empty: none. */
let making = "";

/** @param {string} key */
async function watch(key) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, PROGRESS_MS));
    if (making !== key) return;
    // Without an answer, the next one says it.
    const found = await get(`/v1/campaigns/progress/${key}`).catch(() => null);
    if (making !== key) return;
    progress = found ?? progress;
    changed();
  }
}

async function plan() {
  if (progress || !file.text.trim()) return;
  const { name, text } = file;
  const key = newKey();
  [made, error, progress] = [null, null, { part: "waiting", done: 0, of: 0 }];
  making = key;
  changed({ now: true });
  void watch(key);
  try {
    const body = { name, text, hosts_max: HOSTS_MAX };
    const headers = { "Idempotency-Key": key };
    const told = await post("/v1/campaigns/plan", body, headers, undefined, PLAN_MS);
    timeline.reset();
    made = { text, told };
  } catch (found) {
    error = /** @type {Error} */ (found);
  }
  [progress, making] = [null, ""];
  changed({ now: true });
}

/** @param {Event} event */
function submit(event) {
  event.preventDefault();
  void plan();
}

/** @param {{text: string, told: any}} of */
const start = ({ text, told }) =>
  ask({
    path: "/v1/campaigns",
    body: { name: file.name, text, digest: told.digest },
    title: `Start ${told.campaign}?`,
    isCounted: false,
    effect: () => [
      html`${told.impact} of <b>${count(told.host_count, "host")}</b>, in
        ${count(told.stages.length, "stage")}: ${count(told.vm_count, "VM")} of
        ${count(told.tenant_count, "tenant")}`,
      "The first hosts are announced at once, as windows and budgets allow",
      html`Nothing starts if the plan is no longer <span class="mono">${told.digest}</span>: the
        fleet may have changed since`,
    ],
    button: () => `Start ${count(told.host_count, "host")}`,
    placeholder: "Such as: CHG-48213",
    then: ({ campaign }) =>
      dispatchEvent(new CustomEvent("go", { detail: campaignAddress(campaign) })),
  });

/** @param {any} event A file that was chosen. */
async function read(event) {
  const [chosen] = event.target.files;
  if (!chosen) return;
  [file.name, file.text] = [chosen.name, await chosen.text()];
  event.target.value = "";
  changed({ now: true });
}

const standing = () =>
  progress &&
  html`<span role="status"
    >${capital(progress.part)}${
      progress.of ? ` ${number(progress.done)} of ${count(progress.of, "host")}` : ""
    }…</span
  >`;

function form() {
  const isReady = !progress && file.text.trim() !== "";
  return html`<form class="card" aria-labelledby="file" @submit=${submit}>
    <header>
      <h2 id="file">Campaign file</h2>
      <span class="soft">${file.name}</span><span class="grow"></span>
      <label class="btn" for="open">Open a file…</label>
      <input class="vh" id="open" type="file" accept=".toml,text/plain" @change=${read} />
    </header>
    <div class="in">
      <label class="vh" for="text">The file, in TOML</label>
      <textarea
        id="text"
        class="mono"
        rows="12"
        spellcheck="false"
        placeholder=${EXAMPLE}
        .value=${file.text}
        @input=${(/** @type {any} */ event) => {
          file.text = event.target.value;
          changed({ now: true });
        }}
      ></textarea>
      <div class="acts gap">
        <button class=${made ? "" : "prim"} aria-disabled=${isReady ? "false" : "true"}>
          Plan
        </button>
        <span class="soft"
          >${
            standing() ?? "Says what the campaign would do. Nothing is announced or changed."
          }</span
        >
      </div>
    </div>
  </form>`;
}

/** @param {{text: string, told: any}} of */
function result(of) {
  const { told, text } = of;
  const isOld = text !== file.text;
  const refuses = told.held.some((/** @type {any} */ each) => each.refuses_start);
  const why = isOld
    ? "The file was changed after this plan: plan it again."
    : refuses
      ? "Another campaign has some of the hosts, as the plan says."
      : "";
  const starts = html`<button
    class="prim"
    aria-disabled=${why ? "true" : "false"}
    aria-describedby="whynot"
    @click=${() => !why && start(of)}
  >
    Start…
  </button>`;
  return html`<div class="acts paperbar gap">
      <span class="soft" id="whynot">${why}</span><span class="grow"></span>
      ${mayOrder("campaigns") ? starts : html`<span class="soft">Your roles start none.</span>`}
    </div>
    ${planSheet(told)}`;
}

function view() {
  return html`<div class="acts paperbar noprint"><a href=${`${BASE}campaigns`}>‹ Campaigns</a></div>
    <div class="paperbar gap">
      <h1>New campaign</h1>
      <div class="gap">
        ${
          mayOrder("campaigns/plan")
            ? form()
            : html`<div class="note">
                <span><b>Your roles plan no campaign.</b> It needs the role plan.</span>
              </div>`
        }
      </div>
      ${error ? html`<div class="gap">${errorNote(error)}</div>` : nothing}
    </div>
    ${made ? result(made) : nothing}`;
}

/** With a campaign in the address: plan it again, as if it started now. */
async function enter() {
  const campaign = asked("campaign");
  if (!campaign) return;
  try {
    const { text } = await get(`/v1/campaigns/${encodeURIComponent(campaign)}/file`);
    [file.name, file.text] = [`${campaign}.toml`, text];
    await plan();
  } catch (found) {
    error = /** @type {Error} */ (found);
  }
  changed({ now: true });
}

/** @type {import("../pages.js").Page} */
export const page = { title: () => "New campaign", view, enter: () => void enter() };
