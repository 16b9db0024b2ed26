// Saves figures as they are on the screen, with their title above and their caption below.

const SVG = "http://www.w3.org/2000/svg";
const PURPOSE = { PNG: "for slides", SVG: "as shown" };
const EDGE = 16;
const SCALE = 2; // of a PNG, for projectors
// System fonts: an image is drawn without the page's fonts, so text must not be measured with those.
const OF_PAGE = /"Source [^"]*",\s*/g;
const TITLE = { size: 20, weight: 600, family: 'Georgia, "Times New Roman", serif' };
const KICKER = { size: 11, weight: 600, family: '"SFMono-Regular", Menlo, Consolas, monospace' };
const CAPTION = { size: 13, weight: 400, family: '"Segoe UI", Helvetica, Arial, sans-serif' };
const LINE = 1.35; // of the size

export default function ({ data, parentElement }) {
  const place = parentElement.querySelector(".pictures");
  const figures = () => [...document.querySelectorAll(data.figures)].filter((plot) => plot._fullLayout);
  const status = element("span", { role: "status" });
  const rows = figures().map((plot, i, all) => {
    const words = all.length === 1 ? data : { ...data, ...ownWords(plot, i, data.name) };
    const buttons = Object.entries(PURPOSE).map(([kind, purpose]) => {
      const button = element("button", { type: "button" }, `${kind}, ${purpose}`);
      if (all.length > 1) button.setAttribute("aria-label", `${kind} of ${words.title}`);
      button.onclick = () => save(figures()[i], words, kind.toLowerCase(), status, data.plotly);
      return button;
    });
    return element("p", {}, ...(all.length > 1 ? [`${words.title} `] : []), ...buttons);
  });
  place.replaceChildren(...rows, status);
  if (!rows.length) status.textContent = "No figure is shown.";
}

function ownWords(plot, i, name) {
  const alt = plot.closest("[aria-label]")?.getAttribute("aria-label");
  const title = plain(plot.layout.title?.text) || `Figure ${i + 1}`;
  return { title, name: `${name}-${i + 1}`, alt: alt || title, caption: "" };
}

async function save(plot, words, kind, status, library) {
  try {
    status.textContent = "Drawing …";
    const Plotly = await loadPlotly(library);
    const svg = await drawn(Plotly, plot, words);
    const file = `${words.name}.${kind}`;
    const blob = new Blob([svg.text], { type: "image/svg+xml" });
    offer(kind === "svg" ? blob : await painted(blob, svg), file);
    status.textContent = `Saved ${file}`;
  } catch (error) {
    status.textContent = `The image could not be made (${error.message}). Reload the page and try again.`;
  }
}

async function drawn(Plotly, plot, words) {
  const { width, height } = plot._fullLayout;
  const [paper, ink, muted] = ["paper", "ink", "muted"].map(color);
  const titled = plain(plot.layout.title?.text) === words.title; // already contains the title
  const layout = { ...plot.layout, paper_bgcolor: paper, width, height, autosize: false };
  const figure = withMachineFonts({ data: plot.data, layout });
  const address = await Plotly.toImage(figure, { format: "svg", width, height });
  const inner = new DOMParser().parseFromString(decodeURIComponent(address.slice(address.indexOf(",") + 1)), "image/svg+xml");
  const kicker = block(document.querySelector(".kicker")?.textContent ?? "", KICKER, muted, EDGE, width);
  const title = block(titled ? "" : words.title, TITLE, ink, kicker.bottom, width);
  const top = titled ? kicker.bottom : title.bottom;
  const caption = block(words.caption, CAPTION, muted, top + height, width);
  const [wide, high] = [width + 2 * EDGE, Math.ceil(caption.bottom + EDGE)];
  const drawing = document.importNode(inner.documentElement, true);
  for (const [name, value] of Object.entries({ x: EDGE, y: top, width, height })) drawing.setAttribute(name, value);
  const sheet = shape("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "img" });
  sheet.append(shape("title", {}, words.title || words.name), shape("desc", {}, words.alt));
  sheet.append(shape("rect", { width: "100%", height: "100%", fill: paper }), drawing);
  sheet.append(...kicker.lines, ...title.lines, ...caption.lines);
  return { text: new XMLSerializer().serializeToString(sheet), width: wide, height: high };
}

function withMachineFonts(value) {
  if (Array.isArray(value)) return value.map(withMachineFonts);
  if (Object.prototype.toString.call(value) !== "[object Object]") return value; // numbers, texts, typed arrays
  const entries = Object.entries(value).filter(([name]) => !name.startsWith("_"));
  return Object.fromEntries(entries.map(([name, own]) => [
    name, name === "family" && typeof own === "string" ? own.replace(OF_PAGE, "") : withMachineFonts(own),
  ]));
}

// Draws lines of text from `top` on; returns their lower end.
function block(text, font, fill, top, room) {
  const type = { "font-family": font.family, "font-size": font.size, "font-weight": font.weight, fill };
  const texts = wrapped(text, font, room);
  const lines = texts.map(({ words, width }, i) => {
    // Keeps the length of a line if the file is opened with other fonts.
    const place = { x: EDGE, y: top + (i + 1) * font.size * LINE, textLength: width, lengthAdjust: "spacingAndGlyphs" };
    return shape("text", { ...place, ...type }, words);
  });
  return { lines, bottom: top + texts.length * font.size * LINE };
}

async function painted(blob, { width, height }) {
  const address = URL.createObjectURL(blob);
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = element("canvas", { width: width * SCALE, height: height * SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}

function offer(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser reads it after the click
}

// Breaks text into lines of at most this width; a word that is longer than a line is split.
function wrapped(text, font, room) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${font.weight} ${font.size}px ${font.family}`;
  const fits = (words) => pen.measureText(words).width <= room;
  const lines = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && fits(longer)) lines[lines.length - 1] = longer;
    else lines.push(...pieces(word, fits));
  }
  return lines.map((words) => ({ words, width: pen.measureText(words).width }));
}

function pieces(word, fits) {
  const found = [""];
  for (const letter of word) {
    if (found.at(-1) && !fits(found.at(-1) + letter)) found.push("");
    found[found.length - 1] += letter;
  }
  return found;
}

function plain(text) {
  return (text ?? "").replace(/<br\s*\/?>/g, " ").replace(/<[^>]*>/g, "");
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function shape(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
