// Draws the figures of the report, and redraws them when the color scheme changes.
const { figures, pairs } = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");

function draw() {
  const turned = new Map(pairs);
  figures.forEach((figure, i) => {
    const { data, layout } = dark.matches ? recolored(figure, turned) : figure;
    const place = document.getElementById(`figure-${i}`);
    place.style.minHeight = `${layout.height ?? 450}px`;
    const buttons = { toImageButtonOptions: { format: "svg", filename: place.id }, displaylogo: false, showSendToCloud: false };
    Plotly.react(place, structuredClone(data), structuredClone(layout), { responsive: true, ...buttons });
  });
}

function recolored(value, turned) {
  if (typeof value === "string") return recoloredText(value, turned);
  if (Array.isArray(value)) return value.map((item) => recolored(item, turned));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, recolored(item, turned)]));
}

function recoloredText(text, turned) {
  const hex = (code) => turned.get(code.toUpperCase()) ?? code;
  return text.replace(/#[0-9a-f]{6}\b/gi, hex).replace(/rgba\((\d+),\s*(\d+),\s*(\d+),/g, (whole, ...parts) => {
    const code = "#" + parts.slice(0, 3).map((part) => Number(part).toString(16).padStart(2, "0")).join("");
    const found = turned.get(code.toUpperCase());
    return found ? `rgba(${[1, 3, 5].map((at) => parseInt(found.slice(at, at + 2), 16))},` : whole;
  });
}

dark.addEventListener("change", draw);
draw();
