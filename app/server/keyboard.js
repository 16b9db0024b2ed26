// The definition of a term of the glossary opens by a press without a script. Under a mouse this opens it, and closes it
// when the mouse leaves both.
const termOrTip = (node) => node?.closest?.(".term, .tip");
const tipOf = (part) => part.popoverTargetElement ?? part;
addEventListener("pointerover", ({ target, pointerType }) => {
  const part = pointerType === "mouse" && termOrTip(target);
  if (part && !tipOf(part).matches(":popover-open")) tipOf(part).showPopover({ source: part });
});
addEventListener("pointerout", ({ target, relatedTarget, pointerType }) => {
  const part = pointerType === "mouse" && termOrTip(target);
  const next = termOrTip(relatedTarget);
  if (part && !(next && tipOf(next) === tipOf(part))) tipOf(part).hidePopover();
});

// A control may be gone after the run of the page that it started, and browsers then drop the focus. It goes on to what
// has come to the control's place: the first after those that were before it and still are, or are drawn anew with
// the same name. If it was in a popover, it goes on to the button of that; if its whole section has gone, to what the
// notice offers, such as Undo.
const FOCUSABLE = ":is(a[href], button:enabled, input:enabled, textarea:enabled, summary, [tabindex='0'])";
const isInView = (control) => control.checkVisibility?.({ visibilityProperty: true }) ?? true; // not in older browsers
const controlsIn = (part) =>
  [...document.querySelectorAll(`${part} ${FOCUSABLE}:not([tabindex='-1'])`)].filter(isInView);
const POPOVER = "[data-testid=stPopoverBody]";
const opener = () => document.querySelector("[data-testid=stPopoverButton][aria-expanded=true]");
// Streamlit draws a popover at the end of the page. For the keyboard it comes after the button that opens it.
function controls() {
  const all = controlsIn("[data-testid=stMain]");
  const place = all.indexOf(opener()) + 1 || all.length;
  return [...all.slice(0, place), ...controlsIn(POPOVER), ...all.slice(place)];
}
const labelOf = (control) => control.ariaLabel ?? (control.querySelector("p") ?? control).textContent; // without icons
const keyOf = (part) => part?.className.match(/st-key-\S+/)[0];
const nameOf = (control) => `${keyOf(control.closest("[class*=st-key-]"))} ${labelOf(control)}`;
const named = (control) => control && { control, name: nameOf(control) };
const SECTION = ":is(.stVerticalBlock, .stHorizontalBlock)[class*=st-key-]";
const NOTICE = ".st-key-library_notice";
let focused, before, section, button, restoring;
const isGone = () => focused && !focused.control.isConnected;
addEventListener("focusin", ({ target }) => {
  const all = controls();
  const place = all.indexOf(target);
  if (place < 0) return;
  focused = target.matches(":focus-visible") ? named(target) : undefined;
  before = all.slice(0, place).map(named);
  section = keyOf(target.closest(SECTION));
  button = named(target.closest(POPOVER) && opener());
});
addEventListener("pointerdown", () => (focused = undefined));
function restoreFocus() {
  restoring = undefined;
  const isFinished = document.querySelector("[data-test-script-state=notRunning]");
  if (!isGone() || !isFinished || document.activeElement !== document.body) return;
  const all = controls();
  const now = ({ control, name }) => (all.includes(control) ? control : all.find((one) => nameOf(one) === name));
  const previous = before.map(now).findLast(Boolean);
  const isSectionGone = section && !document.getElementsByClassName(section).length;
  const offer = isSectionGone ? all.find((control) => control.closest(NOTICE)) : undefined;
  (now(focused) ?? (button && now(button)) ?? offer ?? all[all.indexOf(previous) + 1] ?? previous)?.focus();
}
// Only a finished run is looked at, and only after a moment: what replaces a control may come after it has gone. The
// state alone would not do: Streamlit may draw the start and the end of a run at once, or remove the control later.
new MutationObserver((changes) => {
  if (!isGone()) return;
  if (changes.some(({ type }) => type === "attributes")) {
    clearTimeout(restoring);
    restoring = undefined;
  }
  restoring ??= setTimeout(restoreFocus, 100);
}).observe(document, { subtree: true, childList: true, attributeFilter: ["data-test-script-state"] });

// What opens over the page by a press of a key gets the focus, which Streamlit leaves behind it.
const DRAWER = "[data-testid=stSidebar][data-collapsed=false]";
const OPENED_BY = {
  "[data-testid=stPopoverButton][aria-expanded=false]": POPOVER,
  "[data-testid=stExpandSidebarButton]": DRAWER,
};
const OPEN_MS = 2000; // it is drawn by then
function moveFocus(find, until = performance.now() + OPEN_MS) {
  const goal = find();
  goal?.focus({ preventScroll: true });
  if (goal && document.activeElement === goal) return;
  if (performance.now() < until) requestAnimationFrame(() => moveFocus(find, until));
}
function firstIn(part) {
  const panel = document.querySelector(part);
  return panel && (controlsIn(part)[0] ?? Object.assign(panel, { tabIndex: -1 }));
}
const isByKey = ({ detail }) => detail === 0;
addEventListener("click", (event) => {
  if (!isByKey(event)) return;
  const button = Object.keys(OPENED_BY).find((button) => event.target.closest?.(button));
  if (button) moveFocus(() => firstIn(OPENED_BY[button]));
}, { capture: true });

// Tab enters an open popover after its button. Past its last control the popover closes, or it would cover what comes
// next.
addEventListener("keydown", (event) => {
  const panel = document.querySelector(POPOVER);
  const at = document.activeElement;
  if (event.key !== "Tab" || !panel || !opener()) return;
  const all = controls();
  const place = all.indexOf(at === panel ? opener() : at);
  if (!all.includes(opener()) || place < 0 || (at === panel && !event.shiftKey)) return;
  let next = event.shiftKey ? all[place - 1] : all[place + 1];
  if (at === panel) next = opener();
  else if (at === opener() && !event.shiftKey) next = firstIn(POPOVER);
  if (!next || panel.contains(at) === panel.contains(next)) return;
  event.preventDefault();
  if (panel.contains(at) && next !== opener()) opener().click();
  next.focus();
  if (next === panel) firstIn(POPOVER).focus(); // what is in it takes no focus before
}, { capture: true });

// On a phone the navigation is a drawer. It closes by Escape, by a link in it, and when the focus leaves it.
const NAMES = { "Expand sidebar": "Open navigation", "Collapse sidebar": "Close navigation", Sidebar: "Navigation" };
function closeDrawer() {
  const button = document.querySelector(`${DRAWER} [data-testid=stSidebarCollapseButton] button`);
  button?.click();
  return Boolean(button);
}
function leaveDrawer() {
  if (closeDrawer()) moveFocus(() => document.querySelector("[data-testid=stExpandSidebarButton]"));
}
addEventListener("keydown", ({ key }) => key === "Escape" && leaveDrawer());
addEventListener("click", ({ target }) => target.closest("[data-testid=stSidebarNavLink]") && leaveDrawer());
addEventListener("focusin", ({ target }) => target.closest("[data-testid=stSidebar]") || closeDrawer());
new MutationObserver(() => {
  for (const [name, ours] of Object.entries(NAMES)) {
    for (const part of document.querySelectorAll(`[aria-label="${name}"]`)) part.ariaLabel = ours;
  }
}).observe(document, { subtree: true, childList: true });

// Streamlit sends a typed value a moment after its field has lost the focus, and then runs the page, which reads it. If a
// link to another page is pressed before that, the value is lost, or brings the reader back to its page. So the link waits
// until that run has ended, but for at most 3 seconds. If another run was going on when the field changed, it waits for at
// least 0.8 seconds. Another press cancels a link that waits. The run may replace links within the page, so these wait only
// until the value is sent.
const TEXT_FIELD = "input:not([type=checkbox], [type=radio], [type=file]), textarea";
const [SENT_MS, START_MS, END_MS] = [60, 800, 3000]; // after the field has changed
const isRunning = () => !document.querySelector("[data-test-script-state=notRunning]");
let unread, waiting;
addEventListener("change", ({ target, timeStamp }) => {
  if (target.matches(TEXT_FIELD)) unread = { since: timeStamp, isBehindAnother: isRunning(), hasRun: false };
});
const isRead = (link) => {
  const age = performance.now() - unread.since;
  if (link.closest("[data-testid=stMain]")) return age > SENT_MS;
  if (isRunning()) {
    unread.hasRun = !unread.isBehindAnother; // otherwise it may be the run before
    return age > END_MS;
  }
  return unread.hasRun || age > START_MS;
};
addEventListener("popstate", () => clearTimeout(waiting));
const waitForValue = (event) => {
  if (!event.isTrusted) return;
  clearTimeout(waiting);
  const link = event.target.closest?.("a[href]:not([href^='#'], [target=_blank], [download])");
  const isPlain = !(event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!link || !isPlain || !unread || isRead(link)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const { href, textContent } = link;
  // A link that was replaced would load the whole app again, and its element may be another link by now.
  const isSame = () => link.isConnected && link.textContent === textContent;
  const find = () => [...document.links].find((one) => one.href === href) ?? (isSame() ? link : undefined);
  const follow = () => {
    const current = link.isConnected && link.href === href ? link : find();
    if (!isRead(current ?? link)) waiting = setTimeout(follow, 30);
    else current?.click();
  };
  follow();
};
addEventListener("click", waitForValue, { capture: true });

// The two keys of a presenter's remote lead through the slides of a story. Streamlit, which counts the keys that are down,
// must see only the arrow.
const OF_REMOTES = { PageDown: "ArrowRight", PageUp: "ArrowLeft" };
for (const type of ["keydown", "keyup"]) {
  const listen = (event) => {
    const key = OF_REMOTES[event.key];
    if (!key || !document.querySelector(".st-key-slide_bar")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    event.target.dispatchEvent(new KeyboardEvent(type, { key, code: key, bubbles: true }));
  };
  addEventListener(type, listen, { capture: true });
}
