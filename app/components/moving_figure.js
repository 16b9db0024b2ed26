// Draws a figure in place. Points keep their identity by their order, so that new positions are reached by gliding.

export default function ({ data, parentElement }) {
  const view = (parentElement.fedscapeMoving ??= new MovingFigure(parentElement.querySelector(".moving")));
  view.show(data);
  return () => {
    view.close();
    delete parentElement.fedscapeMoving;
  };
}

class MovingFigure {
  constructor(place) {
    this.place = place;
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(place);
  }

  async show({ figure, moves, alt, config, plotly, glide_ms }) {
    this.place.setAttribute("aria-label", alt);
    this.place.style.minHeight = `${figure.layout.height}px`;
    const look = JSON.stringify(figure);
    const isAnother = look !== this.look; // its points are other things: nothing to glide from
    this.look = look;
    this.wanted = moves;
    try {
      const Plotly = await loadPlotly(plotly);
      if (this.closed || this.wanted !== moves) return;
      const still = !this.drawn || isAnother || matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden;
      const transition = { duration: still ? 0 : glide_ms, easing: "linear" };
      const layout = { ...figure.layout, uirevision: "kept", transition };
      const traces = figure.data.map((trace) => ({ ...trace, ...moves[trace.name] }));
      await Plotly.react(this.place, traces, layout, { ...config, responsive: false });
      this.drawn = true;
    } catch (error) {
      this.place.textContent = `The figure cannot be drawn (${error.message}). Reload the page.`;
    }
  }

  resize() {
    const isOnScreen = this.place.isConnected && this.place.clientWidth > 0; // leaving the page is a change of size, too
    if (this.drawn && isOnScreen) window.Plotly.Plots.resize(this.place);
  }

  close() {
    this.closed = true;
    this.resizer.disconnect();
    window.Plotly?.purge(this.place);
  }
}
