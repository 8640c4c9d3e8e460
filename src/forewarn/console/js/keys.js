// Keys. None of them acts by itself: at most it opens a dialog. They can be switched off.

import { html, render } from "./lit.js";
import { isOpen } from "./dialogs.js";
import { BASE } from "./base.js";

const KEPT = "forewarn-keys";
/** Between `g` and the letter of a page. */
const SECOND_KEY_MS = 1500;

/** @type {Record<string, string>} */
const PAGES = { n: "", c: "campaigns", h: "hosts", r: "reports", y: "history", w: "wall" };

/** @type {[string[], string][]} */
const HELP = [
  [["/"], "find"],
  [["g", "n"], "Now"],
  [["g", "c"], "campaigns"],
  [["g", "h"], "hosts"],
  [["g", "r"], "reports"],
  [["g", "y"], "history"],
  [["↑", "↓"], "host before, after"],
  [["→", "←"], "open, close cluster or rack"],
  [["Enter"], "details of the host; Esc closes"],
  [["f"], "next failed host"],
  [["h"], "next held host; again: what holds it"],
  [["+", "−"], "span of the timeline"],
  [["0"], "back to now"],
  [["!"], "the Stop dialog; never stops by itself"],
  [["?"], "these keys"],
];

let isOff = false;
try {
  isOff = localStorage.getItem(KEPT) === "off";
} catch {
  // Without storage, they are on.
}

/** Keys of the page that is shown. @type {Record<string, () => void>} */
let ofPage = {};
/** @param {Record<string, () => void> | undefined} keys */
export const keysOfPage = (keys) => (ofPage = keys ?? {});

let goAt = 0;
const place = document.createElement("div");
document.body.append(place);

/** @param {Event} event */
function onSwitch(event) {
  isOff = !(/** @type {HTMLInputElement} */ (event.target).checked);
  try {
    localStorage.setItem(KEPT, isOff ? "off" : "on");
  } catch {
    // As above.
  }
}

function help() {
  render(
    html`<dialog class="dlg" aria-labelledby="keys-title">
      <header><h2 id="keys-title">Keys</h2></header>
      <div>
        <table class="tight clus">
          <tbody>
            ${HELP.map(
              ([keys, what]) =>
                html`<tr>
                  <td class="nw">${keys.map((key) => html`<kbd>${key}</kbd> `)}</td>
                  <td>${what}</td>
                </tr>`,
            )}
          </tbody>
        </table>
        <p>
          <label
            ><input type="checkbox" .checked=${!isOff} @change=${onSwitch} /> Keys with one letter
            are on</label
          >
        </p>
      </div>
      <form method="dialog">
        <footer><button class="prim">Close</button></footer>
      </form>
    </dialog>`,
    place,
  );
  place.querySelector("dialog")?.showModal();
}

/** @param {EventTarget | null} target */
const isTyping = (target) =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) &&
      !["checkbox", "radio"].includes(/** @type {any} */ (target).type)));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isOpen() || document.querySelector("dialog[open]") || isTyping(event.target)) return;
  const { key } = event;
  if (key === "?") return void (event.preventDefault(), help());
  if (isOff && key !== "Escape") return;
  const isSecond = Date.now() - goAt < SECOND_KEY_MS;
  goAt = 0;
  if (isSecond && PAGES[key] !== undefined) {
    event.preventDefault();
    return void dispatchEvent(new CustomEvent("go", { detail: BASE + PAGES[key] }));
  }
  if (key === "g") goAt = Date.now();
  else if (key === "/") {
    const field =
      document.getElementById("find") ?? document.querySelector("main input[type=search]");
    if (!(field instanceof HTMLElement)) return;
    event.preventDefault();
    field.focus();
    /** @type {HTMLInputElement} */ (field).select();
  } else if (ofPage[key]) {
    event.preventDefault();
    ofPage[key]?.();
  }
});
