// Scrolls to the top of a newly opened section, if the reader has scrolled below it; without a bar, to that of the page.
export default function ({ data, parentElement }) {
  if (parentElement.shown === data.section) return;
  const isFirst = parentElement.shown === undefined;
  parentElement.shown = data.section;
  const page = parentElement.closest("[data-testid=stMain]");
  if (isFirst || !page) return;
  if (!data.bar) {
    page.scrollTo(0, 0);
    return;
  }
  const bar = parentElement.closest(data.bar)?.parentElement;
  if (!bar) return;
  const above = bar.getBoundingClientRect().top - bar.parentElement.getBoundingClientRect().top; // the bar is sticky
  if (above > 0) page.scrollBy(0, -above);
}
