// What changes on a page without a move of the focus, for screen readers.

// What a page found is read out when it has changed: its title and first sentence, the state of a run, a verdict. Only
// once it has stayed the same for a moment, so not every frame of a run that plays; and not as the first page opens.
const SPOKEN = "[data-testid=stMain] :is(h1, .lead, .finding, .reading, .verdict)";
const STILL_MS = 1200;
const region = document.createElement("p");
region.className = "announcements";
region.role = "status";
const texts = (read) => [...document.querySelectorAll(SPOKEN)].map(read).filter(Boolean);
let known, latest, waiting;
function announce() {
  const now = texts((part) => part.innerText.trim()); // without hidden definitions
  if (!region.isConnected) document.body.append(region);
  if (known?.length) region.textContent = now.filter((text) => !known.includes(text)).join(" ");
  known = now;
}
new MutationObserver(() => {
  const now = texts((part) => part.textContent).join("\n");
  if (now === latest) return;
  latest = now;
  clearTimeout(waiting);
  waiting = setTimeout(announce, STILL_MS);
}).observe(document, { subtree: true, childList: true, characterData: true });

// An error right below a field belongs to it: it is read out with the field.
const TYPED = "input:not([type=checkbox], [type=radio], [type=file], [type=range]), textarea";
const ERROR = "error-of-";
const idsOf = (field) => (field.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean);
const descriptionsOf = (field) => idsOf(field).filter((id) => !id.startsWith(ERROR)); // those of Streamlit
function describe(field, ids) {
  if (ids.length) field.setAttribute("aria-describedby", ids.join(" "));
  else field.removeAttribute("aria-describedby");
}
let wrong = new Map();
function describeErrors() {
  const now = new Map();
  for (const alert of document.querySelectorAll("[data-testid=stAlertContentError]")) {
    const field = alert.closest(".stElementContainer")?.previousElementSibling?.querySelector(TYPED);
    if (field) now.set(field, alert);
  }
  for (const field of wrong.keys()) {
    if (now.has(field)) continue;
    field.removeAttribute("aria-invalid");
    describe(field, descriptionsOf(field));
  }
  for (const [field, alert] of now) {
    alert.id ||= `${ERROR}${field.id}`;
    field.setAttribute("aria-invalid", "true");
    describe(field, [...descriptionsOf(field), alert.id]);
  }
  wrong = now;
}
new MutationObserver(describeErrors).observe(document, { subtree: true, childList: true });
