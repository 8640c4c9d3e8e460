// The maintenance windows of a tenant's scopes: what they are, when they open, and their orders.

import { html, nothing } from "../lit.js";
import { ask, become } from "../dialogs.js";
import { says } from "../effect.js";
import { empty, loaded, mayOrder, moment } from "../parts.js";
import { resource } from "../store.js";
import * as time from "../time.js";
import { vms } from "./tenant_vms.js";

export const windows = resource("/v1/windows?limit=200", { topics: ["history"], pause: 5000 });

/** What a window looks like that is offered first. */
const EXAMPLE = ["sat,sun 02:00 4h UTC"];

/**
 * The windows that a scope has; undefined: none.
 * @param {string} scope
 * @returns {string[] | undefined}
 */
const linesOf = (scope) =>
  windows.value?.windows.find((/** @type {any} */ each) => each.scope === scope)?.windows;

/** @param {string[]} named @param {string} first */
function set(named, first) {
  const scopes = [...new Set([first, ...named])].sort();
  /**
   * @param {string} scope @param {string[]} lines
   * @returns {Partial<import("../dialogs.js").Ask>}
   */
  const setting = (scope, lines) => ({
    title: `Set the windows of ${scope}?`,
    body: { scopes: [scope], windows: lines },
    effect: says(
      html`Maintenance of <b>${scope}</b> starts only in these windows, even after an approval`,
      "Emergency repairs ignore windows",
      linesOf(scope) ? `They replace ${linesOf(scope)?.join("; ")}` : "",
    ),
    button: () => "Set windows",
    fields: () =>
      html`<div class="fields">
        <label class="field"
          >Scope
          <select
            @change=${(/** @type {any} */ event) =>
              become(setting(event.target.value, linesOf(event.target.value) ?? EXAMPLE))}
          >
            ${scopes.map((each) => html`<option .selected=${each === scope}>${each}</option>`)}
          </select></label
        ><label class="field"
          >Windows
          <input
            spellcheck="false"
            autocomplete="off"
            .value=${lines.join("; ")}
            title="Days, start, length and time zone; several are separated by ;"
            @change=${(/** @type {any} */ event) =>
              become(setting(scope, parted(event.target.value)))}
        /></label>
      </div>`,
  });
  const opened = /** @type {import("../dialogs.js").Ask} */ (
    setting(first, linesOf(first) ?? EXAMPLE)
  );
  ask({ ...opened, path: "/v1/window-set", placeholder: "Such as: quiet at night" });
}

/** @param {string} text */
const parted = (text) =>
  text
    .split(";")
    .map((each) => each.trim())
    .filter(Boolean);

/** @param {string} scope */
const clear = (scope) =>
  ask({
    title: `Remove the windows of ${scope}?`,
    path: "/v1/window-clear",
    body: { scopes: [scope] },
    effect: says(html`Maintenance of <b>${scope}</b> can start at any time, after its notice`),
    button: () => "Remove windows",
    placeholder: "Such as: no longer needed",
  });

/** @param {any} each @param {string[]} scopes */
const row = (each, scopes) =>
  html`<div class="in choice">
    <div>
      <b>${each.scope}</b> ${each.windows.join("; ")}
      ${
        each.openings.length
          ? html`<span class="soft">next ${moment(time.at(each.openings[0].opens))}</span>`
          : nothing
      }
    </div>
    ${
      mayOrder("window-set")
        ? html`<div class="acts">
            <button class="small" @click=${() => set(scopes, each.scope)}>Set…</button
            ><button class="small" @click=${() => clear(each.scope)}>Remove…</button>
          </div>`
        : nothing
    }
  </div>`;

export function windowsCard() {
  /** @type {string[]} */
  const named = (vms.value?.items ?? []).map((/** @type {any} */ each) => each.scope);
  const scopes = [...new Set(named)].filter(Boolean).sort();
  return html`<section class="card" aria-labelledby="win">
    <header>
      <h2 id="win">Maintenance windows</h2>
      <span class="grow"></span>${
        mayOrder("window-set") && scopes[0]
          ? html`<button class="small" @click=${() => set(scopes, scopes[0] ?? "")}>
              Set windows…
            </button>`
          : nothing
      }
    </header>
    ${loaded(windows, (value) =>
      value.windows.length
        ? value.windows.map((/** @type {any} */ each) => row(each, scopes))
        : empty("None", "Maintenance starts at any time, after its notice."),
    )}
  </section>`;
}
