// The thin strip: what runs, what waits, on which device; what is wrong; and a word when runs have ended elsewhere.

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
    this.toast = new Toast(root.querySelector(".strip-toast"));
    this.polling = new Polling(
      () => this.address(),
      (overview) => this.answered(overview),
      () => this.say({ text: "no connection to the app; retrying" }),
    );
  }

  show(data) {
    this.route = data.route;
    // Runs that were under way when this browser last asked, or came later. Kept with the window: it outlives every page.
    if (data.active) (window.fedscapeWatched ??= new Set()).add(data.active);
    this.say(data);
    this.polling.soon(data.wait_ms);
  }

  close() {
    this.closed = true;
    this.polling.close();
    this.toast.close();
    document.body.classList.remove("has-alerts");
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

  answered(overview) {
    this.say({ ...overview, text: overview.text ?? overview.problem });
    if (overview.active !== undefined) window.fedscapeWatched = new Set([overview.active]);
    if (overview.ended) this.toast.tell(overview.ended);
  }

  // Runs whose row is in view need no toast; those that the toast tells of stay in it when others join them.
  address() {
    if (!this.route) return undefined;
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
