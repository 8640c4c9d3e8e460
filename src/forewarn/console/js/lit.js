// The templates of all pages: the only home of lit-html, so that no page imports more of it.

export { html, nothing, render, svg } from "../vendor/lit/lit-html.js";
export { repeat } from "../vendor/lit/directives/repeat.js";
