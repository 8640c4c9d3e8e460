// The dialog of an order: what it will do, as the service counts it, the reason, and what
// came of it. Nothing is shown as done before the service has said so.

import { html, nothing, render } from "./lit.js";
import { isRefusal, newKey, order, post, Refused } from "./api.js";
import { outcome, refusals } from "./outcomes.js";
import { mayOrder } from "./parts.js";
import { refreshAll } from "./store.js";

/** While a dialog is open, its effect is counted again after this time. */
const COUNT_MS = 2000;
/** The longest pause between counts that fail: each that follows another waits twice as long. */
const COUNT_MS_MAX = 60_000;
/** If the effect has grown, the button does nothing for this long. */
const DISARMED_MS = 1000;
const REASON_CHARACTERS_MIN = 3;
/** Statuses of requests that the service refuses without a look at their key. */
const UNREAD = [401, 403, 429];

/**
 * An order that a person is asked about.
 * @typedef {object} Ask
 * @property {string} title A question.
 * @property {string} path
 * @property {Record<string, any>} body Without the reason.
 * @property {(effect: any) => any[]} effect Lines that say what it does; the effect is undefined
 *   until it is counted.
 * @property {(effect: any) => string} button Verb and number.
 * @property {string[]} [presets] Reasons to choose from.
 * @property {string} [placeholder]
 * @property {boolean} [isStop] It stops something, so its first preset is chosen: it takes two
 *   clicks.
 * @property {(at: any) => any} [fields] What a person chooses besides the reason.
 * @property {() => Promise<Partial<Ask>>} [load] Reads what the order needs while the dialog is
 *   open already.
 * @property {boolean} [needsNoReason]
 * @property {boolean} [isCounted] False: the service does not count what it does.
 * @property {(answer: any) => void} [then] What follows when it is done.
 * @property {string} [back] The button that does nothing.
 * @property {(other: any) => Partial<Ask>} [again] What the order becomes if it is refused because
 *   of another decision, which is `other`.
 */

/**
 * @typedef {{ask: Ask, reason: string, preset: string, effect: any, step: "edit" | "sending" |
 *   "result", tries: number,
 *   error: Error | null, answer: any, armedAt: number, isTrial: boolean,
 *   isLoaded: boolean, isBarred: boolean, failures: number, counts: number, isUnknown: boolean,
 *   key: string, sent: string, giveUp: AbortController}} Open
 * `isTrial`: the error is of the count. `isBarred`: the service refuses the order as it stands.
 * `failures`: counts that have failed, one after another. `counts`: the number of the latest count,
 * so that the answer of an earlier one is not taken. `key` and `sent`: an order that may have been
 * done. `isUnknown`: one of its requests got no answer, so the order stays as it is.
 */

/** @type {Open | null} */
let open = null;
let timer = 0;

const place = document.createElement("div");
document.body.append(place);

/** @param {Ask} ask */
export function ask(ask) {
  if (!mayOrder()) return;
  const preset = (ask.isStop && ask.presets?.[0]) || "";
  open = {
    ask: { ...ask },
    reason: preset,
    preset,
    effect: undefined,
    step: "edit",
    tries: 0,
    error: null,
    answer: null,
    armedAt: 0,
    isTrial: false,
    isLoaded: !ask.load,
    isBarred: false,
    failures: 0,
    counts: 0,
    isUnknown: false,
    key: "",
    sent: "",
    giveUp: new AbortController(),
  };
  draw();
  const dialog = place.querySelector("dialog");
  if (!dialog?.open) dialog?.showModal();
  const first = dialog?.querySelector(ask.isStop && ask.presets ? "input[type=radio]" : "textarea");
  /** @type {HTMLElement | null | undefined} */ (
    first ?? dialog?.querySelector("footer button")
  )?.focus();
  void measure();
}

export const isOpen = () => open !== null;

/** An order that is on its way stays in sight, with whatever comes of it. @param {Open} at */
function closed(at) {
  if (at !== open) return;
  if (at.step === "sending") place.querySelector("dialog")?.showModal();
  else close();
}

function close() {
  clearTimeout(timer);
  open = null;
  place.querySelector("dialog")?.close();
  draw();
}

/**
 * How much an effect changes: if this grows while one reads, the button waits.
 * @param {any} effect
 * @returns {number}
 */
const size = (effect) =>
  Object.values(effect).reduce(
    (sum, part) =>
      sum + (part?.hosts ?? 0) + (part?.vms ?? 0) + (part?.events ?? 0) + (part?.operations ?? 0),
    effect.waiting_hosts ?? 0,
  );

/** Have the effect counted, now and until the dialog closes. */
async function measure() {
  clearTimeout(timer);
  const mine = open;
  if (!mine || mine.step !== "edit" || mine.ask.isCounted === false) return;
  const number = ++mine.counts;
  const isLate = () => mine !== open || mine.step !== "edit" || number !== mine.counts;
  try {
    if (!mine.isLoaded) Object.assign(mine.ask, await mine.ask.load?.());
    mine.isLoaded = true;
    const answer = await post(mine.ask.path, { ...mine.ask.body, reason: "", dry_run: true });
    if (isLate()) return;
    const before = mine.effect;
    mine.effect = {
      ...answer.effect,
      waiting_hosts: answer.waiting_hosts,
      moves: answer.moves,
      refused: answer.refused ?? [],
    };
    if (before && size(mine.effect) > size(before)) {
      mine.armedAt = Date.now() + DISARMED_MS;
      setTimeout(draw, DISARMED_MS + 10);
    }
    if (mine.isTrial) mine.error = null;
    mine.isTrial = mine.isBarred = false;
    mine.failures = 0;
  } catch (error) {
    if (isLate()) return;
    if (error instanceof Refused && error.status === 401) mine.isTrial = false;
    else if ((error instanceof Refused || !mine.isLoaded) && (!mine.error || mine.isTrial))
      [mine.error, mine.isTrial] = [error, true];
    mine.isBarred = isRefusal(error) && /** @type {Refused} */ (error).kind !== "conflict";
    mine.failures += 1;
  }
  draw();
  timer = setTimeout(measure, Math.min(COUNT_MS_MAX, COUNT_MS * 2 ** mine.failures));
}

/** @param {Open} at */
const bodyOf = (at) => ({ ...at.ask.body, reason: at.reason.trim() });

// What was done already is refused when it is counted, and yet its result can be asked for.
const isReady = () =>
  open !== null &&
  open.step === "edit" &&
  open.isLoaded &&
  (!open.isBarred || open.isUnknown) &&
  Date.now() >= open.armedAt &&
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
    const body = bodyOf(mine);
    // What may have been done already must have the same key, or it could be done twice.
    if (!mine.key || mine.sent !== JSON.stringify(body))
      [mine.key, mine.sent] = [newKey(), JSON.stringify(body)];
    mine.giveUp = new AbortController();
    mine.answer = await order(mine.ask.path, body, mine.key, mine.giveUp.signal, (tries) => {
      mine.tries = tries;
      draw();
    });
    refreshAll();
    if (mine !== open) return;
    mine.step = "result";
    if (!mine.answer?.refused?.length) {
      close();
      return mine.ask.then?.(mine.answer);
    }
  } catch (error) {
    const status = error instanceof Refused ? error.status : 0;
    // These are refused before the key is looked at, so an earlier request may have been done.
    const isUnread = UNREAD.includes(status);
    mine.isUnknown = !isRefusal(error) || (isUnread && (mine.isUnknown || mine.tries > 0));
    if (!mine.isUnknown) mine.key = "";
    // Without a session there is a form above this dialog: nothing was done, and one sends again.
    mine.error = status === 401 && !mine.isUnknown ? null : /** @type {Error} */ (error);
    mine.step = "edit";
    mine.tries = 0;
    // Who reads what another has decided may give the order all the same.
    if (error instanceof Refused && error.kind === "conflict") {
      delete mine.ask.body.revision;
      if (error.body.changed) Object.assign(mine.ask, mine.ask.again?.(error.body.changed));
    }
    void measure();
  }
  draw();
}

/**
 * The order is another now, as a person has chosen in its fields.
 * @param {Partial<Ask>} to
 */
export function become(to) {
  if (!open || open.step !== "edit" || open.isUnknown) return;
  Object.assign(open.ask, to);
  [open.effect, open.error, open.isTrial, open.isBarred] = [undefined, null, false, false];
  open.failures = 0;
  draw();
  void measure();
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
const why = (ask, at) =>
  html`<div>
    <label for="reason"><b>Why?</b></label>
    <span class="soft">shown in the history, which all operators read</span>
    ${
      ask.presets
        ? html`<div class="chips" role="radiogroup" aria-label="Reasons">
            ${[...ask.presets, "other"].map(
              (each) =>
                html`<label
                  ><input
                    type="radio"
                    name="preset"
                    .checked=${at.preset === each}
                    @change=${() => choose(each)}
                  />${each}</label
                >`,
            )}
          </div>`
        : nothing
    }
    <textarea
      id="reason"
      rows="2"
      maxlength="1000"
      placeholder=${ask.placeholder ?? ""}
      .value=${at.reason}
      @input=${(/** @type {any} */ event) => {
        at.reason = event.target.value;
        draw();
      }}
    ></textarea>
  </div>`;

function draw() {
  render(open ? dialog(open) : html`<dialog class="dlg"></dialog>`, place);
}

/** @param {Open} at */
function dialog(at) {
  const { ask } = at;
  const isResult = at.step === "result";
  const shown = outcome(at);
  return html`<dialog
    class="dlg"
    aria-labelledby="dialog-title"
    @cancel=${(/** @type {Event} */ event) => at.step === "sending" && event.preventDefault()}
    @close=${() => closed(at)}
  >
    <form @submit=${submit}>
      <header><h2 id="dialog-title">${ask.title}</h2></header>
      <div>
        <ul class="eff">
          ${ask.effect(at.effect).map((line) => html`<li>${line}</li>`)}
        </ul>
        ${
          !isResult && at.effect?.refused.length
            ? html`<p class="warn b">Refused of it:</p>
                ${refusals(at.effect.refused)}`
            : nothing
        }
      </div>
      ${
        isResult || (ask.needsNoReason && !ask.fields)
          ? nothing
          : html`<fieldset ?disabled=${at.isUnknown}>
              ${!ask.fields || !at.isLoaded ? nothing : ask.fields(at.ask)}
              ${ask.needsNoReason ? nothing : why(ask, at)}
            </fieldset>`
      }
      ${shown === nothing ? nothing : html`<div>${shown}</div>`}
      <footer>
        ${
          isResult
            ? html`<button class="prim">Close</button>`
            : html` ${
                  at.step !== "sending"
                    ? html`<button type="button" @click=${close}>${ask.back ?? "Back"}</button>`
                    : at.tries
                      ? html`<button type="button" @click=${() => at.giveUp.abort()}>
                          Give up waiting
                        </button>`
                      : nothing
                }
                <button
                  class=${ask.isStop ? "stop" : "prim"}
                  aria-disabled=${isReady() ? "false" : "true"}
                >
                  ${
                    at.step === "sending"
                      ? "Sending…"
                      : at.isLoaded
                        ? html`${ask.isStop ? "■ " : ""}${ask.button(at.effect)}`
                        : "Loading…"
                  }
                </button>`
        }
      </footer>
    </form>
  </dialog>`;
}

draw();
