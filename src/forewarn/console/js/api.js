// Requests to the operator API. A page never decides what is allowed: it sends, and shows
// the sentence of the service if it refuses.

import { learn } from "./time.js";
import { parse } from "./text.js";

/** A response that takes longer counts as missing. */
const ANSWER_MS = 15_000;
/**
 * How old an answer may be, in seconds: who looks at the same shares it. A list that has changed
 * meanwhile is fetched once more.
 */
export const RECENT_SECONDS = 1;
/** Delays before a request is retried with the same key, in ms; the last is repeated. */
const RETRY_DELAYS_MS = [1000, 2000, 4000, 8000];

/** The service has refused: its sentence and its hint. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {{error?: string, hint?: string, kind?: string, problems?: any, changed?: any}} body
   */
  constructor(status, body) {
    super(body.error ?? `the service answered ${status}`);
    this.status = status;
    this.hint = body.hint ?? "";
    this.kind = body.kind ?? "";
    this.body = body;
  }
}

/** No response: it is unknown whether the request arrived. */
export class NoAnswer extends Error {}

/**
 * Whether it is known that a request has changed nothing: the service refused it
 * without an internal error.
 * @param {unknown} error
 */
export const isRefusal = (error) =>
  error instanceof Refused && error.status >= 400 && error.status < 500;

/** @type {() => void} */
let whenUnknown = () => {};
/** @param {() => void} call Called when the service does not know the caller (401). */
export const onUnknownCaller = (call) => (whenUnknown = call);

/**
 * @param {string} path
 * @param {RequestInit} [options]
 * @param {number} [patience] After so many ms, an answer counts as missing.
 * @returns {Promise<any>}
 */
async function send(path, options = {}, patience = ANSWER_MS) {
  const began = Date.now();
  let response;
  let text;
  try {
    const limit = AbortSignal.timeout(patience);
    response = await fetch(path, {
      ...options,
      signal: options.signal ? AbortSignal.any([limit, options.signal]) : limit,
    });
    text = await response.text();
  } catch (error) {
    throw new NoAnswer(String(error));
  }
  learnFrom(response, Date.now() - began);
  const body = read(response, text);
  if (response.ok) return body;
  if (response.status === 401) whenUnknown();
  throw new Refused(response.status, body ?? {});
}

/**
 * @param {Response} response
 * @param {string} text
 */
function read(response, text) {
  if (!response.headers.get("content-type")?.startsWith("application/json")) return null;
  try {
    return parse(text);
  } catch {
    throw new NoAnswer("the answer ends too early");
  }
}

/**
 * @param {Response} response
 * @param {number} took
 */
function learnFrom(response, took) {
  const date = Date.parse(response.headers.get("date") ?? "");
  // The header has whole seconds.
  if (!Number.isNaN(date)) learn(date + 500 + took / 2, 500 + took / 2);
}

/** @param {string} path @returns {Promise<any>} */
export const get = (path) =>
  send(path, { headers: { "Cache-Control": `max-age=${RECENT_SECONDS}` } });

/**
 * All pages of a list, up to a number of them.
 * @param {string} path
 * @param {string} key The member that has the objects.
 * @param {number} [most] Pages at most.
 * @returns {Promise<{items: any[], more: boolean, first: any}>}
 */
export async function list(path, key, most = 5) {
  /** @type {any[]} */
  const items = [];
  let after = "";
  let first = null;
  for (let page = 0; page < most; page++) {
    const joint = path.includes("?") ? "&" : "?";
    const body = await get(after ? `${path}${joint}after=${encodeURIComponent(after)}` : path);
    first ??= body;
    items.push(...body[key]);
    after = body.next ?? "";
    if (!after) break;
  }
  return { items, more: after !== "", first };
}

/**
 * @param {string} path
 * @param {object} body
 * @param {Record<string, string>} [headers]
 * @param {AbortSignal} [signal]
 * @param {number} [patience] As for `send`.
 */
export const post = (path, body, headers = {}, signal, patience) =>
  send(
    path,
    {
      method: "POST",
      signal: signal ?? null,
      headers: { "Content-Type": "application/json", ...headers },
      body: JSON.stringify(body),
    },
    patience,
  );

/** @param {string} path */
export const remove = (path) =>
  send(path, { method: "DELETE", headers: { "Content-Type": "application/json" } });

/**
 * A key of an order: the service does what has the same key once.
 */
export const newKey = () =>
  crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-");

/**
 * Send an order, and send it again with the same key until its result is known.
 * @param {string} path
 * @param {object} body
 * @param {string} key
 * @param {AbortSignal} signal Ends the repetitions; the result is then not known.
 * @param {(tries: number) => void} onNoAnswer Called before each repetition.
 */
export async function order(path, body, key, signal, onNoAnswer) {
  for (let tries = 0; ; tries++) {
    try {
      return await post(path, body, { "Idempotency-Key": key }, signal);
    } catch (error) {
      const isOpen =
        error instanceof NoAnswer ||
        (error instanceof Refused && [429, 502, 504].includes(error.status));
      if (!isOpen || signal.aborted) throw error;
      onNoAnswer(tries + 1);
      const pause = RETRY_DELAYS_MS[Math.min(tries, RETRY_DELAYS_MS.length - 1)] ?? 1000;
      await new Promise((resolve) => {
        setTimeout(resolve, pause);
        signal.addEventListener("abort", resolve, { once: true });
      });
      if (signal.aborted) throw error;
    }
  }
}
