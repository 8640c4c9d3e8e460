// The dialog of an order: what it will do, as the service counts it, the reason, and what
// came of it. Nothing is shown as done before the service has said so.

import { html, nothing, render } from "./lit.js";
import { order, post, Refused } from "./api.js";
import { refreshAll } from "./store.js";
import { capital, count } from "./text.js";
import * as time from "./time.js";

/** While a dialog is open, its effect is counted again after this time. */
const COUNT_MS = 2000;
/** If the effect has grown, the button does nothing for this long. */
const DISARMED_MS = 1000;
const REASON_CHARACTERS_MIN = 3;

/**
 * An order that a person is asked about.
 * @typedef {object} Ask
 * @property {string} title A question.
 * @property {string} path
 * @property {Record<string, any>} body Without the reason.
 * @property {(effect: any) => any[]} effect Lines that say what it does; the effect is undefined until it is counted.
 * @property {(effect: any) => string} button Verb and number.
 * @property {string[]} [presets] Reasons to choose from.
 * @property {string} [placeholder]
 * @property {boolean} [isStop]
 * @property {boolean} [needsNoReason]
 * @property {string} [back] The button that does nothing.
 */

/**
 * @typedef {{ask: Ask, reason: string, preset: string, effect: any, step: "edit" | "sending" | "result", tries: number,
 *   error: Error | null, answer: any, armedAt: number, isCounted: boolean, isTrial: boolean}} Open
 */

/** @type {Open | null} */
let open = null;
let timer = 0;

const place = document.createElement("div");
document.body.append(place);

/** @param {Ask} ask */
export function ask(ask) {
  open = {
    ask, reason: "", preset: "", effect: undefined, step: "edit", tries: 0, error: null, answer: null,
    armedAt: 0, isCounted: true, isTrial: false,
  };
  draw();
  const dialog = place.querySelector("dialog");
  if (!dialog?.open) dialog?.showModal();
  const first = dialog?.querySelector(ask.presets ? "input[type=radio]" : "textarea");
  /** @type {HTMLElement | null | undefined} */ (first ?? dialog?.querySelector("footer button"))?.focus();
  void measure();
}

export const isOpen = () => open !== null;

function close() {
  clearTimeout(timer);
  open = null;
  place.querySelector("dialog")?.close();
  draw();
}

/** How much an effect changes: if this grows while one reads, the button waits. @param {any} effect @returns {number} */
const size = (effect) =>
  Object.values(effect).reduce((sum, part) => sum + (part?.hosts ?? 0) + (part?.vms ?? 0) + (part?.events ?? 0), 0);

/** Have the effect counted, now and until the dialog closes. */
async function measure() {
  clearTimeout(timer);
  const mine = open;
  if (!mine || mine.step !== "edit" || !mine.isCounted) return;
  try {
    const answer = await post(mine.ask.path, { ...mine.ask.body, reason: "", dry_run: true });
    if (mine !== open || mine.step !== "edit") return;
    const before = mine.effect;
    mine.effect = { ...answer.effect, waiting_hosts: answer.waiting_hosts, refused: answer.refused ?? [] };
    if (before && size(mine.effect) > size(before)) {
      mine.armedAt = Date.now() + DISARMED_MS;
      setTimeout(draw, DISARMED_MS + 10);
    }
    if (mine.error instanceof Refused && mine.isTrial) mine.error = null;
    mine.isTrial = false;
  } catch (error) {
    if (mine !== open || mine.step !== "edit") return;
    // An older service does not count, and says that it does not know the member.
    if (error instanceof Refused && error.status === 400 && JSON.stringify(error.body).includes("dry_run")) mine.isCounted = false;
    else if (error instanceof Refused && (!mine.error || mine.isTrial)) [mine.error, mine.isTrial] = [error, true];
  }
  draw();
  timer = setTimeout(measure, COUNT_MS);
}

const isReady = () =>
  open !== null && open.step === "edit" && Date.now() >= open.armedAt &&
  (open.ask.needsNoReason || open.reason.trim().length >= REASON_CHARACTERS_MIN);

/** @param {Event} event */
async function submit(event) {
  event.preventDefault();
  const mine = open;
  if (!mine) return;
  if (mine.step === "result") return close();
  if (!isReady()) return place.querySelector("textarea")?.focus();
  mine.step = "sending";
  mine.error = null;
  mine.isTrial = false;
  draw();
  try {
    const body = { ...mine.ask.body, reason: mine.reason.trim() };
    mine.answer = await order(mine.ask.path, body, (tries) => {
      mine.tries = tries;
      draw();
    });
    refreshAll();
    if (mine !== open) return;
    mine.step = "result";
    if (!mine.answer?.refused?.length) return close();
  } catch (error) {
    mine.error = /** @type {Error} */ (error);
    mine.step = "edit";
    mine.tries = 0;
    // Who reads what another has decided may give the order all the same.
    if (error instanceof Refused && error.kind === "conflict") delete mine.ask.body.revision;
  }
  draw();
}

/** @param {string} preset */
function choose(preset) {
  if (!open) return;
  open.preset = preset;
  open.reason = preset === "other" ? "" : preset;
  draw();
  if (preset === "other") place.querySelector("textarea")?.focus();
}

/** @param {Ask} ask @param {Open} at */
const why = (ask, at) => html`<div>
  <label for="reason"><b>Why?</b></label> <span class="soft">shown in the history</span>
  ${ask.presets ? html`<div class="chips" role="radiogroup" aria-label="Reasons">${[...ask.presets, "other"].map((each) => html`<label><input type="radio" name="preset"
    .checked=${at.preset === each} @change=${() => choose(each)}>${each}</label>`)}</div>` : nothing}
  <textarea id="reason" rows="2" maxlength="1000" placeholder=${ask.placeholder ?? ""} .value=${at.reason}
    @input=${(/** @type {any} */ event) => { at.reason = event.target.value; draw(); }}></textarea></div>`;

/** @param {any[]} refused */
const refusals = (refused) => html`<table class="tight"><tbody>${refused.map((each) => html`<tr><th>${each.name}</th><td>${each.error}. ${each.hint}</td></tr>`)}</tbody></table>`;

/** @param {Open} at */
function outcome(at) {
  if (at.error) {
    const { error } = at;
    const isConflict = error instanceof Refused && error.status === 409;
    const other = error instanceof Refused ? error.body.changed : null;
    return html`<div class="note ${isConflict ? "w" : "e"}" role="alert"><span><b>${isConflict ? "" : "Refused: "}${isConflict ? capital(error.message) : error.message}.</b>
      ${other ? html`${time.second(time.at(other.at))}${other.reason ? html` <q>${other.reason}</q>` : nothing}. ` : nothing}${error instanceof Refused ? error.hint : ""} <span class="nw">Nothing was changed.</span></span></div>`;
  }
  if (at.tries) return html`<div class="note w" role="alert"><span><b>No answer.</b> Sent again with the same key (${count(at.tries, "time")}): it is never done twice.</span></div>`;
  if (at.step === "result") return html`<div class="note w" role="alert"><span><b>Done in part.</b> ${count(at.answer.refused.length, "part was", "parts were")} refused:</span></div>${refusals(at.answer.refused)}`;
  return nothing;
}

function draw() {
  render(open ? dialog(open) : html`<dialog class="dlg"></dialog>`, place);
}

/** @param {Open} at */
function dialog(at) {
  const { ask } = at;
  const isResult = at.step === "result";
  const shown = outcome(at);
  return html`<dialog class="dlg" aria-labelledby="dialog-title" @close=${() => open && at === open && close()}>
    <form @submit=${submit}><header><h2 id="dialog-title">${ask.title}</h2></header>
    <div><ul class="eff">${ask.effect(at.effect).map((line) => html`<li>${line}</li>`)}</ul>
      ${!isResult && at.effect?.refused.length ? html`<p class="warn b">Refused of it:</p>${refusals(at.effect.refused)}` : nothing}</div>
    ${isResult || ask.needsNoReason ? nothing : why(ask, at)}
    ${shown === nothing ? nothing : html`<div>${shown}</div>`}
    <footer>${isResult ? html`<button class="prim">Close</button>` : html`
      <button type="button" @click=${close}>${ask.back ?? "Back"}</button>
      <button class=${ask.isStop ? "stop" : "prim"} aria-disabled=${isReady() ? "false" : "true"}>${
      at.step === "sending" ? "Sending…" : html`${ask.isStop ? "■ " : ""}${ask.button(at.effect)}`}</button>`}</footer></form></dialog>`;
}

draw();
