// Shows the top of a section that another one has replaced, if the reader has scrolled below it.
export default function ({ data, parentElement }) {
  if (parentElement.shown === data.section) return;
  const isFirst = parentElement.shown === undefined;
  parentElement.shown = data.section;
  const bar = parentElement.closest(data.bar)?.parentElement; // sticky: its place in the page is below its neighbour
  const [page, above] = [bar?.closest("[data-testid=stMain]"), bar?.previousElementSibling];
  if (isFirst || !page || !above) return;
  const hidden = bar.getBoundingClientRect().top - above.getBoundingClientRect().bottom;
  const gap = parseFloat(getComputedStyle(bar.parentElement).rowGap) || 0;
  if (hidden > gap) page.scrollBy(0, gap - hidden);
}
