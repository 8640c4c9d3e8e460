// The scenarios of a simulation: what each does, and a button that plays it.

import { html, nothing } from "../lit.js";
import { count } from "../text.js";

/** @param {any} choices @param {(name: string) => void} play */
export const scenarios = (choices, play) =>
  choices
    ? html`<details class="card scenarios">
        <summary class="in">${count(choices.scenarios.length, "scenario")}: what each does</summary>
        <table class="flow">
          <tbody>
            ${choices.scenarios.map(
              (/** @type {any} */ each) =>
                html`<tr>
                  <th scope="row" class="mono">${each.scenario}</th>
                  <td class="wide">${each.description}</td>
                  <td>
                    <button
                      class="small"
                      aria-label=${`Play ${each.scenario}`}
                      aria-disabled=${choices.playing ? "true" : "false"}
                      @click=${() => !choices.playing && play(each.scenario)}
                    >
                      Play
                    </button>
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>
      </details>`
    : nothing;
