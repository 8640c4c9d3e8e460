// Things by what they have in common.

/**
 * @template Thing
 * @param {Thing[]} things
 * @param {(thing: Thing) => string} keyOf
 * @returns {Map<string, Thing[]>} The groups in the order of their first things.
 */
export function groupedBy(things, keyOf) {
  /** @type {Map<string, Thing[]>} */
  const found = new Map();
  for (const each of things) {
    const key = keyOf(each);
    const group = found.get(key);
    if (group) group.push(each);
    else found.set(key, [each]);
  }
  return found;
}
