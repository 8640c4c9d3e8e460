// What has come of an order, as its dialog says it: not known, refused, or done in part.

import { html, nothing } from "./lit.js";
import { isRefusal, NoAnswer, Refused } from "./api.js";
import { marked, timed } from "./parts.js";
import { count } from "./text.js";
import * as time from "./time.js";

/** @param {any[]} refused */
export const refusals = (refused) =>
  html`<table class="tight">
    <tbody>
      ${refused.map(
        (each) =>
          html`<tr>
            <th>${each.name}</th>
            <td>${timed(each.error)}. ${marked(each.hint)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;

/** @param {Error} error Of an order that may have been done. */
const unknown = (error) =>
  html`<div class="note e" role="alert">
    <span
      ><b>It is not known whether it was done</b>:
      ${error instanceof NoAnswer ? "the service did not answer" : error.message}.
      ${error instanceof Refused ? error.hint : ""} Look at the history. If the order is given again
      here, it has the same key: it is never done twice.</span
    >
  </div>`;

/** @param {import("./dialogs.js").Open} at */
export function outcome(at) {
  if (at.error) {
    const { error } = at;
    const isConflict = error instanceof Refused && error.status === 409;
    const other = error instanceof Refused ? error.body.changed : null;
    if (!at.isTrial && at.isUnknown) return unknown(error);
    const what = isConflict
      ? "Not possible: "
      : isRefusal(error)
        ? "Refused: "
        : "Not known yet what it would do: ";
    const text = error instanceof NoAnswer ? "the service does not answer" : error.message;
    return html`<div class="note ${isConflict ? "w" : "e"}" role="alert">
      <span
        ><b>${what}${timed(text)}.</b>
        ${
          other
            ? html`${time.second(time.at(other.at))}${
                other.reason ? html` <q>${other.reason}</q>` : nothing
              }. `
            : nothing
        }${error instanceof Refused ? marked(error.hint) : nothing}
        <span class="nw">Nothing was changed.</span></span
      >
    </div>`;
  }
  if (at.tries)
    return html`<div class="note w" role="alert">
      <span
        ><b>No answer.</b> Sent again with the same key (${count(at.tries, "time")}): it is never
        done twice.</span
      >
    </div>`;
  if (at.step === "result")
    return html`<div class="note w" role="alert">
        <span
          ><b>Done in part.</b> ${count(at.answer.refused.length, "part was", "parts were")}
          refused:</span
        >
      </div>
      ${refusals(at.answer.refused)}`;
  return nothing;
}
