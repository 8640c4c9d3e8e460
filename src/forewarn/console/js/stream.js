// The one stream of this browser. The tab that holds the lock reads it, and passes each
// message on to the others: a browser opens six connections to a server, so with a stream
// in each tab the seventh tab would not load.

import { parse } from "./text.js";
import { apply, begin, changed, given, heardAt, refreshAll, state, take } from "./store.js";
import { stopCountdowns } from "./time.js";

/** Without a message for this long, the data can be old. The service sends a comment each 5 s. */
const STALE_MS = 12_000;
/** The longest pause between two attempts to connect. */
const RETRY_MS_MAX = 15_000;
/** A tab that is hidden for this long stops listening. */
const HIDDEN_MS = 5 * 60_000;
const LOCK = "forewarn-stream";

const channel = new BroadcastChannel(LOCK);
let path = "";
let lastId = "";
let isLeader = false;
/** Whether this tab has all objects of the leader, so that the next message fits them. */
let isFed = false;
/** When the leader began to connect, in the browser's ms. */
let triedAt = 0;
/** @type {AbortController | null} */
let listening = null;
/** @type {AbortController | null} */
let connection = null;
/** @type {() => void} */
let wake = () => {};
let whenOut = () => {};
let whenBack = () => {};
let whenSession = () => {};
/** @param {() => void} call Called when somebody has logged in or out in another tab. */
export const onSession = (call) => (whenSession = call);

/**
 * Follow the topics from now on.
 * @param {string} topics
 * @param {() => void} onOut Called when the caller's session has ended.
 * @param {() => void} onBack Called when the stream is back after a pause.
 */
export function follow(topics, onOut, onBack) {
  path = `/v1/watch?topics=${topics}`;
  whenOut = onOut;
  whenBack = onBack;
  stop();
  void listen();
}

/** Stop following, such as at log-out. */
export function stop() {
  listening?.abort();
  listening = null;
  lastId = "";
}

/** Connect at once, without the pause. */
export function retryNow() {
  channel.postMessage({ kind: "retry" });
  wake();
}

async function listen() {
  const mine = (listening = new AbortController());
  isFed = false;
  hear({ mode: "connecting", begun: Date.now() });
  channel.postMessage({ kind: "hello" });
  if (!navigator.locks) return lead(mine.signal);
  try {
    await navigator.locks.request(LOCK, { signal: mine.signal }, () => lead(mine.signal));
  } catch (error) {
    if (!mine.signal.aborted) throw error;
  }
}

/** @param {AbortSignal} signal */
async function lead(signal) {
  isLeader = true;
  // Tabs that asked while nobody led have no answer yet.
  if (lastId) share();
  for (let failures = 0; !signal.aborted;) {
    const wasFine = await connect(signal);
    if (signal.aborted || state.isOut) break;
    failures = wasFine ? 0 : failures + 1;
    const pause = Math.min(RETRY_MS_MAX, 1000 * 2 ** failures) * (0.5 + Math.random() / 2);
    tell({
      mode: state.link.mode === "stale" ? "stale" : "connecting",
      retryAt: Date.now() + pause,
    });
    await new Promise((resolve) => {
      wake = () => resolve(undefined);
      setTimeout(wake, pause);
      signal.addEventListener("abort", wake, { once: true });
    });
  }
  isLeader = false;
}

/**
 * Read the stream until it ends. Returns whether there was a message.
 * @param {AbortSignal} signal
 */
async function connect(signal) {
  connection = new AbortController();
  triedAt = Date.now();
  const either = AbortSignal.any([signal, connection.signal]);
  let hadMessage = false;
  try {
    const response = await fetch(path, {
      signal: either,
      headers: lastId ? { "Last-Event-ID": lastId } : {},
    });
    if (!response.ok || !response.body) return await refused(response);
    if (!lastId) {
      begin();
      channel.postMessage({ kind: "message", name: "reset", body: {}, id: "" });
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) break;
      hadMessage = true;
      const texts = (rest + value).split("\n\n");
      rest = texts.pop() ?? "";
      for (const text of texts) message(text);
      tell({ mode: "live", at: Date.now() });
    }
  } catch {
    // The connection has broken, or was given up.
  }
  return hadMessage;
}

/** @param {Response} response */
async function refused(response) {
  const body = await response.text().then(parse, () => ({}));
  tell({ why: body?.error ?? `the service answered ${response.status}` });
  lastId = "";
  if (response.status === 401) end();
  return false;
}

/** The session is over, for all tabs. */
function end() {
  channel.postMessage({ kind: "out" });
  whenOut();
}

/** @param {string} text One message, without the empty line after it. */
function message(text) {
  let name = "";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("id: ")) lastId = line.slice(4) === "0" ? "" : line.slice(4);
    else if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data) return;
  const body = parse(data);
  if (name === "error") {
    tell({ why: body.error });
    if (body.kind === "unauthorized") end();
    return;
  }
  apply(name, body);
  channel.postMessage({ kind: "message", name, body, id: lastId });
}

/** @param {Partial<typeof state.link>} link What the leader knows, for all tabs. */
function tell(link) {
  hear(link);
  channel.postMessage({ kind: "link", link });
}

/** @param {Partial<typeof state.link>} link */
function hear(link) {
  if (link.mode === "live" && state.link.at && state.link.mode !== "live") whenBack();
  state.link = { ...state.link, ...link };
  if (link.mode === "live") state.link.why = "";
  stopCountdowns(state.link.mode !== "live" && state.link.at > 0 ? heardAt() : NaN);
  changed();
}

/** Give all objects to the other tabs; not while the service sends them again: some may be old. */
function share() {
  if (given()) channel.postMessage({ kind: "all", topics: given(), link: state.link, id: lastId });
}

channel.onmessage = ({ data }) => {
  if (data.kind === "hello" && isLeader) share();
  else if (data.kind === "retry") wake();
  else if (data.kind === "session") whenSession();
  else if (data.kind === "out" && listening) whenOut();
  else if (isLeader || !listening) return;
  else if (data.kind === "link") hear(data.link);
  else if (data.kind === "all") {
    take(data.topics);
    isFed = true;
    hear(data.link);
    lastId = data.id;
  } else if (data.kind === "message" && (isFed || data.name === "reset")) {
    isFed = true;
    apply(data.name, data.body);
    // If this tab leads next, it continues after this message.
    lastId = data.id;
  } else if (data.kind === "message" && data.name === "ready") {
    // The leader had nothing to give when this tab asked.
    channel.postMessage({ kind: "hello" });
  }
};

/** Tell the other tabs that somebody has logged in or out. */
export const tellSession = () => channel.postMessage({ kind: "session" });

/** To be called each second. */
export function look() {
  const { at, begun, mode } = state.link;
  if (!listening || Date.now() - Math.max(at, begun) < STALE_MS) return;
  if (mode !== "stale") hear({ mode: "stale" });
  // A connection that is silent for so long is dead.
  if (isLeader && Date.now() - Math.max(at, triedAt) >= STALE_MS) connection?.abort();
}

let hiddenTimer = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.visibilityState === "hidden") {
    hiddenTimer = setTimeout(() => {
      if (!listening) return;
      stop();
      state.link.mode = "off";
    }, HIDDEN_MS);
  } else if (path && !listening && !state.isOut) {
    listen();
    refreshAll();
  } else refreshAll();
});
