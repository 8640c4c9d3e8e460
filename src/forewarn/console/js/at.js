// The time that one looks at. It is in the address, so that a link shows the same.

import { html } from "./lit.js";
import { asked, look } from "./query.js";
import * as time from "./time.js";

/** The time that was chosen; NaN: none, so it is now. */
export const askedAt = () => time.at(asked("at"));

/** @param {number} instant NaN: now. */
export const addressOf = (instant) =>
  Number.isNaN(instant) ? "" : `${new Date(instant).toISOString().slice(0, 19)}Z`;

/** @param {number} instant NaN: now. */
export const lookAt = (instant) => look({ at: addressOf(instant) });

/** The field of the time. */
export const atField = () =>
  html`<label class="at soft"
    >At, ${time.zoneName()}
    <input
      type="datetime-local"
      .value=${Number.isNaN(askedAt()) ? "" : time.toField(askedAt())}
      @change=${(/** @type {any} */ event) => lookAt(time.ofField(event.target.value))}
  /></label>`;
