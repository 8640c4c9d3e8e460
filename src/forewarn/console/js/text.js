// Texts that others wrote, and words for numbers. Each answer of the service passes
// `parse`, so no page has to think of control characters.

/**
 * Control characters, and those that change the direction or hide: they could make a name look like
 * another.
 */
const DECEIVING =
  "\\x7f-\\x9f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u180e\\u200b-\\u200f\\u2028-\\u202e" +
  "\\u2060-\\u206f\\u2800\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}";
const HOSTILE = new RegExp(`[\\0-\\x08\\x0b-\\x1f${DECEIVING}]`, "gu");
/** The same characters as JSON may escape them; a quick look at the whole text. */
const SUSPECT = new RegExp(`[${DECEIVING}]|\\\\[bfr]|\\\\u`, "u");

/**
 * A text of others, with a sign for each character that could deceive.
 * @param {string} text
 */
export const clean = (text) => text.replace(HOSTILE, "�");

/**
 * The value of a JSON text of the service, all its strings cleaned, also the names of members.
 * @param {string} text
 * @returns {any}
 */
export function parse(text) {
  return SUSPECT.test(text) ? JSON.parse(text, (_, value) => cleaned(value)) : JSON.parse(text);
}

/** @param {any} value */
function cleaned(value) {
  if (typeof value === "string") return clean(value);
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [clean(name), member]));
}

const DIGITS = new Intl.NumberFormat("en-US");

/** @param {number} value */
export const number = (value) => DIGITS.format(value);

/**
 * "1 host", "24 hosts".
 * @param {number} value
 * @param {string} noun
 * @param {string} [plural]
 */
export const count = (value, noun, plural = `${noun}s`) =>
  `${number(value)} ${value === 1 ? noun : plural}`;

/**
 * "a, b and 3 more".
 * @param {string[]} names
 * @param {number} [most] How many are named.
 */
export function some(names, most = 3) {
  const rest = names.length - most;
  return rest > 0
    ? `${names.slice(0, most).join(", ")} and ${number(rest)} more`
    : names.join(", ");
}

/**
 * @param {string} text
 * @param {number} [most] Characters that are left.
 */
export const short = (text, most = 8) =>
  text.length > most + 1 ? `${text.slice(0, most)}…` : text;

/**
 * The end of an ID: the events of an operation begin alike.
 * @param {string} id
 * @param {number} [most] Characters that are left.
 */
export const ending = (id, most = 12) => (id.length > most ? `…${id.slice(-most)}` : id);

/** A word that is a name with signs stays as it is. @param {string} text */
export const capital = (text) =>
  /^\w*[_\d]/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
