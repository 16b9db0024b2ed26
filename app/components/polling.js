// Polls an address of this server: never while the tab is hidden, immediately when it is shown or online again, and less
// often while requests fail.
class Polling {
  static TIMEOUT_MS = 8000;
  static RETRY_MS = 2000;
  static LOST_MS = 15000;

  // address() returns the address, or undefined to pause; received(body, status) handles a response, whose wait_ms is the
  // time until the next poll; lost() is called after two or more failures in a row.
  constructor(address, received, lost = () => {}) {
    Object.assign(this, { address, received, lost, failures: 0 });
    this.now = () => !document.hidden && this.soon(0);
    document.addEventListener("visibilitychange", this.now);
    window.addEventListener("online", this.now);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.now);
    window.removeEventListener("online", this.now);
  }

  // The earlier of two times wins, so that a page that is redrawn repeatedly does not delay the poll.
  soon(wait) {
    const due = Date.now() + wait;
    if (!this.address() || this.closed || (this.timer && this.due <= due)) return;
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => this.poll(), wait);
  }

  async poll() {
    this.timer = undefined;
    if (document.hidden) return;
    let wait = this.failures ? Polling.LOST_MS : Polling.RETRY_MS;
    try {
      const signal = AbortSignal.timeout(Polling.TIMEOUT_MS);
      const response = await fetch(this.address(), { signal, cache: "no-store" });
      if (response.status === 401) return location.reload(); // the sign-in has expired: the page shows the sign-in button
      const body = await response.json();
      if (this.closed) return;
      this.failures = 0;
      this.received(body, response.status);
      wait = body.wait_ms ?? Polling.LOST_MS;
    } catch {
      if (this.failures++) this.lost();
    }
    this.soon(wait);
  }
}
