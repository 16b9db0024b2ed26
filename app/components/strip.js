// The status strip: running and queued runs, the device, problems, and a toast when runs have ended on another page.

const TOAST_MS = 8000;
const LONGEST_TOAST_MS = 20000; // from the first run in it: runs that end later get a new toast

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
    this.resized = new ResizeObserver(() => makeRoom(this.alerts.offsetHeight));
    this.resized.observe(this.alerts);
    this.polling = new Polling(
      () => this.address(),
      (overview) => this.received(overview),
      () => this.update({ text: "no connection to the app; retrying" }),
    );
  }

  show(data) {
    this.route = data.route;
    // Runs that were active at the last poll, and later ones. Stored on the window, which outlives the page.
    if (data.active) (window.fedscapeWatched ??= new Set()).add(data.active);
    this.update(data);
    this.polling.soon(data.wait_ms);
  }

  close() {
    this.closed = true;
    this.polling.close();
    this.toast.close();
    this.resized.disconnect();
    makeRoom(0);
  }

  update({ text, alerts }) {
    this.line.textContent = this.line.title = text;
    const shown = JSON.stringify(alerts ?? []);
    if (shown === this.shown) return; // a screen reader would read the same alerts again
    this.shown = shown;
    this.alerts.replaceChildren(...(alerts ?? []).map((alert) => element("p", { textContent: alert })));
    this.alerts.hidden = !alerts?.length;
  }

  received(overview) {
    this.update({ ...overview, text: overview.text ?? overview.problem });
    if (overview.active !== undefined) window.fedscapeWatched = new Set([overview.active]);
    if (overview.ended) this.toast.show(overview.ended);
  }

  // Runs listed on this page need no toast. Runs in an open toast stay in it when others are added.
  address() {
    if (!this.route) return undefined;
    const watched = [...(window.fedscapeWatched ?? []), this.toast.ids].filter(Boolean).join();
    const seen = [...document.querySelectorAll(".live-run")].map((row) => row.dataset.run).join();
    return `${this.route}?${new URLSearchParams({ watched, seen })}`;
  }
}

// One box for all runs that ended recently. It closes by itself, unless it has the pointer or the focus.
class Toast {
  constructor(box) {
    this.box = box;
    this.ids = "";
    for (const event of ["pointerenter", "focusin"]) box.addEventListener(event, () => clearTimeout(this.timer));
    for (const event of ["pointerleave", "focusout"]) box.addEventListener(event, () => this.closeSoon());
    box.addEventListener("keydown", ({ key }) => key === "Escape" && this.close());
  }

  show({ ids, text, links }) {
    if (ids === this.ids) return;
    if (!this.ids) this.openedAt = Date.now();
    this.ids = ids;
    const close = element("button", { type: "button", textContent: "Close", onclick: () => this.close() });
    const anchors = links.map(({ label, href }) => element("a", { href, textContent: label }));
    this.box.replaceChildren(element("p", { textContent: text }), ...anchors, close);
    this.closeSoon();
  }

  closeSoon() {
    clearTimeout(this.timer);
    const rest = this.openedAt + LONGEST_TOAST_MS - Date.now();
    if (this.ids) this.timer = setTimeout(() => this.close(), Math.max(1000, Math.min(TOAST_MS, rest)));
  }

  close() {
    clearTimeout(this.timer);
    this.ids = "";
    this.box.replaceChildren();
  }
}

// The page ends above the alerts, and so does what is fixed at its foot.
function makeRoom(height) {
  document.body.style.setProperty("--alerts", `${height}px`);
}

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}
