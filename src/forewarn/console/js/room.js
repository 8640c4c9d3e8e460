// Free places for VMs by cluster, or by zone where no host is in a cluster: values in, values out.

/** @param {any} capacity What `/v1/capacity` tells. @returns {any[]} Each with its `name`. */
export const places = (capacity) =>
  capacity?.clusters.length
    ? capacity.clusters.map((/** @type {any} */ each) => ({ ...each, name: each.cluster }))
    : (capacity?.zones ?? []).map((/** @type {any} */ each) => ({
        ...each,
        name: each.zone ? `zone ${each.zone}` : "–",
      }));

/** The most VMs that a next host of a place must move. @param {any} capacity @param {any} place */
export const needs = (capacity, { cluster, zone }) =>
  Math.max(
    0,
    ...capacity.next_hosts
      .filter((/** @type {any} */ each) =>
        cluster === undefined ? each.zone === zone : each.cluster === cluster,
      )
      .map((/** @type {any} */ each) => each.needs),
  );

/**
 * Whether the host after the next one may find no room: less is free than twice what the next
 * one needs.
 * @param {any} capacity @param {any} place
 */
export const isShort = (capacity, place) =>
  !place.unlimited && place.free < 2 * needs(capacity, place);
