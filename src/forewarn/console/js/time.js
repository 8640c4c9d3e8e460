// Time, always by the server's clock: a browser's clock can be wrong by minutes.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Below this, a countdown shows seconds: there is hardly time to act. */
const SECONDS_BELOW = 10 * MINUTE;

let ahead = 0;
let doubt = Infinity;

/**
 * Learn the server's time from an answer.
 * @param {number} at The server's time, in ms since 1970.
 * @param {number} uncertain How much later or earlier it can be, in ms.
 */
export function learn(at, uncertain) {
  // A better answer replaces a worse one; the doubt grows, since clocks drift.
  doubt += 1;
  if (uncertain > doubt) return;
  doubt = uncertain;
  ahead = at - Date.now();
}

let stood = NaN;
/** @param {number} instant Of what a file tells: time stands still there. */
export const stand = (instant) => (stood = instant);

/** The server's time, in ms since 1970. */
export const now = () => (Number.isNaN(stood) ? Date.now() + ahead : stood);

/** @param {string | null | undefined} text An instant in RFC 3339. */
export const at = (text) => (text ? Date.parse(text) : NaN);

const KEPT = "forewarn-zone";
let zone = "UTC";
try {
  zone = localStorage.getItem(KEPT) ?? "UTC";
} catch {
  // Without storage, the choice ends with the page.
}

export const isUtc = () => zone === "UTC";

/** The name of the zone that all times are shown in. */
export const zoneName = () =>
  isUtc() ? "UTC" : (parts({ timeZoneName: "short" }, now()).timeZoneName ?? "local");

export function switchZone() {
  formatted.clear();
  zone = isUtc() ? "local" : "UTC";
  try {
    localStorage.setItem(KEPT, zone);
  } catch {
    // As above.
  }
}

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/**
 * @param {Intl.DateTimeFormatOptions} options
 * @param {number} instant
 * @returns {Record<string, string>}
 */
function parts(options, instant) {
  const key = `${zone} ${Object.keys(options)}`;
  let format = formats.get(key);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", {
      ...options,
      ...(isUtc() ? { timeZone: "UTC" } : {}),
    });
    formats.set(key, format);
  }
  return Object.fromEntries(format.formatToParts(instant).map((each) => [each.type, each.value]));
}

/** @type {Intl.DateTimeFormatOptions} */
const WHOLE = {
  weekday: "short",
  day: "2-digit",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
};

/** Seconds whose parts are kept: to format one takes longer than to draw its cell again. */
const KNOWN_MAX = 4000;
/** @type {Map<number, Record<string, string>>} */
const formatted = new Map();

/** @param {number} instant */
function whole(instant) {
  const at = Math.floor(instant / SECOND);
  let found = formatted.get(at);
  if (!found) {
    if (formatted.size >= KNOWN_MAX) formatted.clear();
    formatted.set(at, (found = parts(WHOLE, instant)));
  }
  return found;
}

/** @param {number} instant "22:31" */
export function minute(instant) {
  if (Number.isNaN(instant)) return "–";
  const part = whole(instant);
  return `${part.hour}:${part.minute}`;
}

/** @param {number} instant "22:31:07" */
export function second(instant) {
  if (Number.isNaN(instant)) return "–";
  return `${minute(instant)}:${whole(instant).second}`;
}

/** @param {number} instant "22:31", "Mon 22:31" or "23 Nov 22:31", as far as it is needed. */
export function when(instant) {
  if (Number.isNaN(instant)) return "–";
  const that = whole(instant);
  const today = whole(now());
  const time = `${that.hour}:${that.minute}`;
  if (that.day === today.day && that.month === today.month && that.year === today.year) return time;
  if (Math.abs(instant - now()) < 6 * DAY) return `${that.weekday} ${time}`;
  return `${that.day} ${that.month} ${that.year === today.year ? "" : `${that.year} `}${time}`;
}

/** @param {number} instant "Mon 23 Nov" */
export function day(instant) {
  const part = whole(instant);
  return `${part.weekday} ${part.day} ${part.month}`;
}

/** @param {number} instant The full instant, for titles. */
export function full(instant) {
  if (Number.isNaN(instant)) return "";
  const part = whole(instant);
  const time = `${part.hour}:${part.minute}:${part.second} ${zoneName()}`;
  return `${part.weekday} ${part.day} ${part.month} ${part.year}, ${time}`;
}

const two = (/** @type {number} */ value) => String(value).padStart(2, "0");

/** @param {number} length In ms. "6 min 04 s", "2 h 05 min", "3 d 4 h" */
export function lasting(length) {
  const most = Math.max(0, length);
  if (most < MINUTE) return `${Math.floor(most / SECOND)} s`;
  if (most < SECONDS_BELOW)
    return `${Math.floor(most / MINUTE)} min ${two(Math.floor((most % MINUTE) / SECOND))} s`;
  return roughly(most);
}

/** @param {number} length In ms, by whole minutes. */
export function roughly(length) {
  const most = Math.max(0, length);
  if (most < MINUTE) return `${Math.floor(most / SECOND)} s`;
  if (most < HOUR) return `${Math.floor(most / MINUTE)} min`;
  if (most < DAY)
    return `${Math.floor(most / HOUR)} h ${two(Math.floor((most % HOUR) / MINUTE))} min`;
  return `${Math.floor(most / DAY)} d ${Math.floor((most % DAY) / HOUR)} h`;
}

/** An instant for a field of a form, in the zone of the page. @param {number} instant */
export function toField(instant) {
  const zoned = isUtc() ? instant : instant - new Date(instant).getTimezoneOffset() * MINUTE;
  return new Date(zoned).toISOString().slice(0, 16);
}
/** @param {string} text What such a field has. */
export const ofField = (text) => Date.parse(isUtc() ? `${text}Z` : text);

/** @param {number} instant "20 min ago" */
export const ago = (instant) => `${roughly(now() - instant)} ago`;

let stopped = NaN;
/**
 * The stream is gone, so that no countdown can be trusted.
 * @param {number} instant When it told something last; NaN: it is there.
 */
export const stopCountdowns = (instant) => (stopped = instant);

/** Until when it is known what has happened. */
export const known = () => (Number.isNaN(stopped) ? now() : Math.min(stopped, now()));

/** @param {number} instant "in 1:53", "in 13 min", "due", or "?" */
export function until(instant) {
  if (!Number.isNaN(stopped)) return "?";
  const left = instant - now();
  if (left <= 0) return "due";
  if (left >= SECONDS_BELOW) return `in ${roughly(left)}`;
  return `in ${Math.floor(left / MINUTE)}:${two(Math.floor((left % MINUTE) / SECOND))}`;
}

/** @param {number} instant "7:53", "1 h 05 min", "0:00" when it is over, or "?" */
export function left(instant) {
  if (!Number.isNaN(stopped)) return "?";
  const rest = Math.max(0, instant - now());
  return rest < HOUR
    ? `${Math.floor(rest / MINUTE)}:${two(Math.floor((rest % MINUTE) / SECOND))}`
    : roughly(rest);
}

/**
 * The part of a span that is over, from 0 to 1.
 * @param {number} begin
 * @param {number} end
 */
export const share = (begin, end) =>
  end > begin ? Math.min(1, Math.max(0, (now() - begin) / (end - begin))) : 1;
