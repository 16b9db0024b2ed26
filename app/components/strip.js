// The thin strip: what runs, what waits, on which device; what is wrong; and a word when runs have ended elsewhere.
// Asks rarely, and not at all while the tab is hidden.

const LOST_MS = 15000;
const AGAIN_MS = 2000;
const FETCH_TIMEOUT_MS = 8000;
const TOAST_MS = 8000;
const LONGEST_TOAST_MS = 20000; // runs may go on ending: after this time the next begin a toast of their own

export default function ({ data, parentElement }) {
  const strip = (parentElement.fedscapeStrip ??= new Strip(parentElement));
  strip.show(data);
  return onRemoval(parentElement, () => {
    strip.close();
    delete parentElement.fedscapeStrip;
  });
}

class Strip {
  constructor(root) {
    this.line = root.querySelector(".strip");
    this.alerts = root.querySelector(".strip-alerts");
    this.failures = 0;
    this.toast = new Toast(root.querySelector(".strip-toast"));
    this.look = () => !document.hidden && this.soon(0);
    document.addEventListener("visibilitychange", this.look);
    window.addEventListener("online", this.look);
  }

  show(data) {
    this.route = data.route;
    // Runs that were under way when this browser last asked, or came later. Kept with the window: it outlives every page.
    if (data.active) (window.fedscapeWatched ??= new Set()).add(data.active);
    this.say(data);
    this.soon(data.wait_ms);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.toast.close();
    document.body.classList.remove("has-alerts");
    document.removeEventListener("visibilitychange", this.look);
    window.removeEventListener("online", this.look);
  }

  say({ text, alerts }) {
    this.line.textContent = this.line.title = text;
    const told = JSON.stringify(alerts ?? []);
    if (told === this.told) return; // said anew, it would be read aloud anew
    this.told = told;
    this.alerts.replaceChildren(...(alerts ?? []).map((alert) => element("p", { textContent: alert })));
    this.alerts.hidden = !alerts?.length;
    // A class: as body:has() it would be asked for at every change of the page, and charts draw half as fast.
    document.body.classList.toggle("has-alerts", !this.alerts.hidden);
  }

  // The sooner of two times counts: a page that is drawn again and again must not put it off.
  soon(wait) {
    const due = Date.now() + wait;
    if (!this.route || this.closed || (this.timer && this.due <= due)) return;
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => this.ask(), wait);
  }

  async ask() {
    this.timer = undefined;
    if (document.hidden) return;
    let wait = this.failures ? LOST_MS : AGAIN_MS;
    try {
      const answer = await fetch(this.address(), { signal: AbortSignal.timeout(FETCH_TIMEOUT_MS), cache: "no-store" });
      if (answer.status === 401) return location.reload(); // the sign-in has ended: the page will ask for a new one
      const overview = await answer.json();
      if (this.closed) return;
      this.failures = 0;
      this.say({ ...overview, text: overview.text ?? overview.problem });
      if (overview.active !== undefined) window.fedscapeWatched = new Set([overview.active]);
      if (overview.ended) this.toast.tell(overview.ended);
      wait = overview.wait_ms ?? LOST_MS;
    } catch {
      if (this.failures++) this.say({ text: "no connection to the app; retrying" }); // once may be a hiccup
    }
    this.soon(wait);
  }

  // Runs whose row is in view need no toast; those that the toast tells of stay in it when others join them.
  address() {
    const watched = [...(window.fedscapeWatched ?? []), this.toast.ids].filter(Boolean).join();
    const seen = [...document.querySelectorAll(".live-run")].map((row) => row.dataset.run).join();
    return `${this.route}?${new URLSearchParams({ watched, seen })}`;
  }
}

// One box for all that has ended of late. It leaves by itself, but not from under the pointer or the focus.
class Toast {
  constructor(box) {
    this.box = box;
    this.ids = "";
    for (const event of ["pointerenter", "focusin"]) box.addEventListener(event, () => clearTimeout(this.timer));
    for (const event of ["pointerleave", "focusout"]) box.addEventListener(event, () => this.leaveSoon());
    box.addEventListener("keydown", ({ key }) => key === "Escape" && this.close());
  }

  tell({ ids, text, links }) {
    if (ids === this.ids) return;
    if (!this.ids) this.begun = Date.now();
    this.ids = ids;
    const close = element("button", { type: "button", textContent: "Close", onclick: () => this.close() });
    const ways = links.map(({ label, href }) => element("a", { href, textContent: label }));
    this.box.replaceChildren(element("p", { textContent: text }), ...ways, close);
    this.leaveSoon();
  }

  leaveSoon() {
    clearTimeout(this.timer);
    const rest = this.begun + LONGEST_TOAST_MS - Date.now();
    if (this.ids) this.timer = setTimeout(() => this.close(), Math.max(1000, Math.min(TOAST_MS, rest)));
  }

  close() {
    clearTimeout(this.timer);
    this.ids = "";
    this.box.replaceChildren();
  }
}

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}
