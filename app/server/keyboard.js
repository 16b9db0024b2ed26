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
// has come to the control's place: the first after those that were before it and still are.
const FOCUSABLE = "a[href], button:enabled, input:enabled, textarea:enabled, summary, [tabindex='0']";
const controls = () => [...document.querySelectorAll(`[data-testid=stMain] :is(${FOCUSABLE})`)];
let focused, before;
addEventListener("focusin", ({ target }) => {
  const all = controls();
  if (!all.includes(target)) return;
  focused = target.matches(":focus-visible") ? target : undefined;
  before = all.slice(0, all.indexOf(target)).reverse();
});
addEventListener("pointerdown", () => (focused = undefined));
function restoreFocus() {
  if (!focused || focused.isConnected || document.activeElement !== document.body) return;
  const all = controls();
  const previous = before.find((control) => control.isConnected);
  (all[all.indexOf(previous) + 1] ?? previous)?.focus();
}
new MutationObserver(() => setTimeout(restoreFocus, 100)).observe(document, {
  subtree: true,
  attributeFilter: ["data-test-script-state"],
});
