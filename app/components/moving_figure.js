// Updates a figure in place. Points are matched by their order, so that they move smoothly to new positions.

export default function ({ data, parentElement }) {
  const view = (parentElement.fedscapeMoving ??= new MovingFigure(parentElement.querySelector(".moving")));
  view.show(data);
  return onRemoval(parentElement, () => {
    view.close();
    delete parentElement.fedscapeMoving;
  });
}

class MovingFigure {
  constructor(place) {
    this.place = place;
    this.problem = document.createElement("p");
    this.problem.setAttribute("role", "alert");
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(place);
  }

  show(data) {
    this.place.setAttribute("aria-label", data.alt);
    const { height } = data.figure.layout; // without one, the style sheet decides
    this.place.style.minHeight = height ? `${height}px` : "";
    this.wanted = data;
    this.drawing ??= this.drawAll();
  }

  // One update at a time, and always the latest: Plotly fails if a second one starts before the first has finished.
  async drawAll() {
    while (this.wanted && !this.closed) {
      const data = this.wanted;
      this.wanted = null;
      await this.draw(data);
    }
    this.drawing = null;
  }

  async draw({ figure, moves, config, plotly, glide_ms }) {
    try {
      const Plotly = await loadPlotly(plotly);
      if (this.closed || this.wanted) return;
      const look = JSON.stringify(figure);
      const isAnother = look !== this.look; // another figure: no animation
      const still = isAnother || matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden;
      const motion = still ? {} : { transition: { duration: glide_ms, easing: "linear" } };
      const layout = { ...figure.layout, uirevision: "kept", ...motion };
      const traces = figure.data.map((trace) => ({ ...trace, ...moves[trace.name] }));
      await Plotly.react(this.place, traces, layout, { ...config, responsive: false });
      this.look = look;
      this.problem.remove();
    } catch (error) {
      this.look = undefined;
      window.Plotly?.purge(this.place); // the next update draws a new figure
      this.problem.textContent = `The figure cannot be drawn (${error.message}). Reload the page.`;
      this.place.before(this.problem);
    }
  }

  resize() {
    const isOnScreen = this.place.isConnected && this.place.clientWidth > 0; // removal also changes the size
    if (this.look && isOnScreen) window.Plotly.Plots.resize(this.place);
  }

  close() {
    this.closed = true;
    this.resizer.disconnect();
    this.problem.remove();
    Promise.resolve(this.drawing).then(() => window.Plotly?.purge(this.place));
  }
}
