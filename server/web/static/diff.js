// @ts-check
/** The difference of two lists of tokens: which tokens have a partner in the other one. */

const MOST_EDITS = 1500; // more differences than that are shown as one

/**
 * How many tokens two lists share at their beginning, and then at their end.
 * @param {number[]} one @param {number[]} two @returns {[number, number]}
 */
export function common(one, two) {
  const most = Math.min(one.length, two.length);
  let same = 0;
  while (same < most && one[same] === two[same]) same += 1;
  let end = 0;
  while (end < most - same && one[one.length - 1 - end] === two[two.length - 1 - end]) end += 1;
  return [same, end];
}

/**
 * For each token of `one` the place of its partner in `two`, -1 where it has none.
 * @param {number[]} one @param {number[]} two @returns {Int32Array}
 */
export function partners(one, two) {
  const found = new Int32Array(one.length).fill(-1);
  const [same, end] = common(one, two);
  for (let i = 0; i < same; i++) found[i] = i;
  for (let i = 1; i <= end; i++) found[one.length - i] = two.length - i;
  const middle = shortest(one.slice(same, one.length - end), two.slice(same, two.length - end));
  for (const [i, k] of middle) found[same + i] = same + k;
  return found;
}

/**
 * The pairs of a longest common subsequence, by the algorithm of Myers (1986); none where the lists
 * differ in more than `MOST_EDITS` tokens.
 * @param {number[]} one @param {number[]} two @returns {[number, number][]}
 */
function shortest(one, two) {
  const [n, m] = [one.length, two.length];
  if (!n || !m) return [];
  const most = Math.min(n + m, MOST_EDITS);
  const ends = new Int32Array(2 * most + 3);
  const middle = most + 1;
  /** @type {Int32Array[]} */
  const history = [];
  for (let edits = 0; edits <= most; edits++) {
    history.push(ends.slice(middle - edits - 1, middle + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && ends[middle + k - 1] < ends[middle + k + 1]);
      let x = down ? ends[middle + k + 1] : ends[middle + k - 1] + 1;
      while (x < n && x - k < m && one[x] === two[x - k]) x += 1;
      ends[middle + k] = x;
      if (x >= n && x - k >= m) return traced(history, n, m);
    }
  }
  return [];
}

/**
 * The pairs on the way back from the end.
 * @param {Int32Array[]} history the ends of the paths before each edit @param {number} n @param {number} m
 * @returns {[number, number][]}
 */
function traced(history, n, m) {
  /** @type {[number, number][]} */
  const pairs = [];
  let [x, y] = [n, m];
  for (let edits = history.length - 1; edits >= 0; edits--) {
    const ends = history[edits];
    const at = (/** @type {number} */ k) => ends[k + edits + 1];
    const k = x - y;
    const down = k === -edits || (k !== edits && at(k - 1) < at(k + 1));
    const before = down ? at(k + 1) : at(k - 1);
    const [startX, startY] = edits ? [before, before - (down ? k + 1 : k - 1)] : [0, 0];
    const [fromX, fromY] = edits ? [startX + (down ? 0 : 1), startY + (down ? 1 : 0)] : [0, 0];
    while (x > fromX && y > fromY) pairs.push([--x, --y]);
    [x, y] = [startX, startY];
  }
  return pairs;
}
