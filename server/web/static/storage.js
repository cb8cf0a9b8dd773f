// @ts-check
/**
 * What the browser stores for this page. Its storage may be full, or forbidden for this site: what it
 * does not take is held here until the page is left.
 */

class Shelf {
  /** @param {() => Storage} open raises where storage is forbidden */
  constructor(open) {
    this.open = open;
    /** @type {Map<string, string>} what the browser does not store */
    this.held = new Map();
  }

  /** @param {string} name @returns {string | null} */
  get(name) {
    try {
      return this.held.get(name) ?? this.open().getItem(name);
    } catch {
      return null;
    }
  }

  /** Whether the browser takes it. If not, what was there before stays. @param {string} name @param {string} value */
  offer(name, value) {
    try {
      this.open().setItem(name, value);
      this.held.delete(name);
      return true;
    } catch {
      return false;
    }
  }

  /** @param {string} name @param {string} value */
  set(name, value) {
    if (!this.offer(name, value)) this.held.set(name, value);
  }

  /** @param {string} name */
  remove(name) {
    this.held.delete(name);
    try {
      this.open().removeItem(name);
    } catch {
      // It was never stored.
    }
  }
}

/** Of this browser. */
export const browserShelf = new Shelf(() => localStorage);
/** Of this tab. */
export const tabShelf = new Shelf(() => sessionStorage);
