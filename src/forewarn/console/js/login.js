// The form for a token, and the link that logs in once. The token is sent once, in a body:
// it is in no address, cookie or storage.

import { html, nothing, render } from "./lit.js";
import { NoAnswer, post, Refused, remove } from "./api.js";
import { changed, state } from "./store.js";
import { brand } from "./frame.js";
import { BASE } from "./base.js";
import { marked } from "./parts.js";
import { tellSession } from "./stream.js";

/** The page that `forewarn console` opens; the link is after #, which the server never sees. */
const LOGIN = `${BASE}login`;

/** Shown instead of the service's hint, which is written for API clients. */
const UNKNOWN =
  "The service does not know this token: it is mistyped, revoked or expired. " +
  "Create another with `forewarn token create`.";

let error = "";
let isBusy = false;
/** @type {() => void} */
let afterLogin = () => {};

/** @param {() => void} call Called after somebody has logged in. */
export const onLogin = (call) => (afterLogin = call);

/** @param {object} body */
async function send(body) {
  isBusy = true;
  error = "";
  changed({ now: true });
  try {
    await post("/v1/session", body);
    tellSession();
    afterLogin();
  } catch (failure) {
    error =
      failure instanceof NoAnswer
        ? "The service does not answer. Try again."
        : failure instanceof Refused && failure.status === 401 && "token" in body
          ? UNKNOWN
          : failure instanceof Refused
            ? `${failure.message}. ${failure.hint}`
            : String(failure);
  }
  isBusy = false;
  changed({ now: true });
}

/** Use the link of the address, if it has one. @returns {Promise<string>} Why it was refused. */
export async function useLink() {
  if (location.pathname !== LOGIN) return "";
  const link = location.hash.slice(1);
  // It must not stay in the history of the browser.
  history.replaceState(null, "", BASE);
  if (link) await send({ link });
  return error;
}

/** End the session, in all tabs. */
export async function logOut() {
  try {
    await remove("/v1/session");
  } catch (failure) {
    // A session that has ended already is what was wanted.
    if (!(failure instanceof Refused && failure.status === 401)) {
      const why = failure instanceof Refused ? failure.message : "the service does not answer";
      state.failure = `You are still logged in: ${why}.`;
      return changed({ now: true });
    }
  }
  tellSession();
  location.assign(BASE);
}

/** @param {Event} event */
function submit(event) {
  event.preventDefault();
  if (isBusy) return;
  const form = /** @type {HTMLFormElement} */ (event.target);
  const field = /** @type {HTMLInputElement} */ (form.elements.namedItem("token"));
  const token = field.value.trim();
  if (!token) return field.focus();
  void send({ token }).then(() => error || form.reset());
}

const place = document.createElement("div");
document.body.append(place);

/**
 * Show the form while somebody must log in: above all, also above the dialog of an order, which
 * stays as it is.
 */
export function drawLogin() {
  const shown = place.querySelector("dialog");
  if (!state.isOut) shown?.close();
  render(
    state.isOut
      ? html`<dialog
          class="out"
          aria-label="Log in"
          @cancel=${(/** @type {Event} */ event) => event.preventDefault()}
          @close=${() => changed()}
        >
          ${login()}
        </dialog>`
      : nothing,
    place,
  );
  const dialog = place.querySelector("dialog");
  if (!dialog || dialog.open) return;
  dialog.showModal();
  document.getElementById("token")?.focus();
}

const login = () =>
  html`<form class="card login" @submit=${submit}>
    <div class="in">
      ${brand}
      <h1 class="vh">Log in</h1>
      <input
        class="vh"
        name="username"
        value="token"
        autocomplete="username"
        tabindex="-1"
        aria-hidden="true"
        readonly
      />
      <label for="token">Token</label
      ><input
        id="token"
        type="password"
        name="token"
        autocomplete="current-password"
        spellcheck="false"
        aria-describedby="token-help"
      />
      <p class="soft" id="token-help">
        Sent once, never stored in the page or in an address. The session ends with the token, or
        after 12 hours. <code>forewarn console</code> gives a link that logs in.
      </p>
      ${error ? html`<p class="bad b" role="alert">${marked(error)}</p>` : nothing}
      <p class="acts">
        <span class="grow"></span
        ><button class="prim" aria-disabled=${isBusy ? "true" : nothing}>
          ${isBusy ? "Sending…" : "Log in"}
        </button>
      </p>
    </div>
  </form>`;
