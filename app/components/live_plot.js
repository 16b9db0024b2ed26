// Polls for new points and adds them to the figures. The element has one timer; reruns only update its data.

const FETCH_TIMEOUT_MS = 8000;
const BACK_OFF_MS = [1000, 2000, 4000, 8000, 15000, 30000];
const LABEL_LINE = 1.3; // of the font's size
const MOVED = 0.25; // of a line: a name moved by more could be taken for that of another curve
const BESIDE_PX = 8; // from the end of a curve to its name
const LED_PX = 24; // to a name that a line leads to
const NARROW_PX = 560;
const REPEAT_MS = 5000; // a running page may miss a trigger
const LOST = "Connection lost"; // or a proxy responds in place of the server
const NO_ROUTE = "this server has no live charts; start it with python -m app";
const MOST_URGENT = ["failed", "diverged", "lost", "running", "starting", "paused", "queued"];
const LOSSES_SHOWN = 3; // times the highest first loss: a run that diverges would flatten the others
const LINES = { accuracy: "wide", clients: "side" }; // the others are small

export default function ({ data, parentElement, setTriggerValue }) {
  const view = (parentElement.fedscapeLive ??= new LiveView(parentElement.querySelector(".live")));
  view.show(data, setTriggerValue);
  return onRemoval(parentElement, () => {
    view.close();
    delete parentElement.fedscapeLive;
  });
}

class LiveView {
  constructor(root) {
    this.state = root.querySelector(".live-state");
    this.list = root.querySelector(".live-runs");
    this.board = root.querySelector(".live-figures");
    this.holder = root.querySelector(".live-hold");
    this.note = root.querySelector(".live-held");
    this.log = root.querySelector(".live-log");
    this.points = new Map();
    this.clients = new Map();
    this.held = null; // while frozen: the number of drawn points of each run, and the drawn clients
    this.failures = 0;
    this.reported = null; // the statuses of all runs for which a redraw was requested
    this.onVisible = () => !document.hidden && this.poll();
    document.addEventListener("visibilitychange", this.onVisible);
    window.addEventListener("online", this.onVisible);
    this.holder.onclick = () => (this.held ? this.release() : this.hold());
    this.log.ontoggle = () => this.log.open && this.poll();
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(root);
  }

  show(data, setTriggerValue) {
    const shown = JSON.stringify([data.runs.map((run) => run.id), data.model]);
    const looks = JSON.stringify(data.figures);
    this.data = data;
    this.send = setTriggerValue;
    if (shown !== this.shown) {
      this.points.clear();
      this.clients.clear();
      this.forgetHold();
      this.logged = "";
    }
    if (shown !== this.shown || looks !== this.looks) this.redraw();
    this.shown = shown;
    this.looks = looks;
    this.log.hidden = data.presenting;
    this.listRuns(data.runs);
    this.poll();
  }

  close() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.closed = true;
    document.removeEventListener("visibilitychange", this.onVisible);
    window.removeEventListener("online", this.onVisible);
    this.resizer.disconnect();
    for (const figure of this.figures()) window.Plotly?.purge(figure);
  }

  // Polling

  async poll() {
    clearTimeout(this.timer);
    this.request?.abort();
    if (this.closed || document.hidden) return;
    const request = (this.request = new AbortController());
    const timeout = setTimeout(() => request.abort("timeout"), FETCH_TIMEOUT_MS);
    try {
      const answer = await fetch(this.address(), { signal: request.signal, cache: "no-store" });
      if (answer.status === 401) return location.reload(); // the sign-in has expired: the page shows the sign-in button
      const isJson = answer.headers.get("content-type")?.includes("json");
      const feed = isJson ? await answer.json() : null;
      if (!isJson) throw new Error(answer.ok || answer.status === 404 ? NO_ROUTE : LOST);
      if (!answer.ok) throw new Error(feed.problem ?? LOST);
      this.failures = 0;
      this.showState("");
      this.listRuns(feed.runs);
      await (this.drawn ?? this.redraw());
      if (this.request !== request || this.closed) return;
      this.take(feed);
      this.timer = setTimeout(() => this.poll(), feed.wait_ms);
    } catch (error) {
      if (this.request !== request || this.closed) return;
      this.retry(error);
    } finally {
      clearTimeout(timeout);
    }
  }

  address() {
    const ids = this.data.runs.map((run) => run.id);
    const after = ids.map((id) => this.points.get(id)?.round.at(-1) ?? -1);
    const log = this.log.open ? `&log=${this.logged}` : "";
    return `${this.data.feed}?runs=${ids}&after=${after}&model=${this.data.model}${log}`;
  }

  retry(error) {
    const wait = BACK_OFF_MS[Math.min(this.failures++, BACK_OFF_MS.length - 1)];
    const lost = error instanceof TypeError || error === "timeout" || error?.name === "AbortError";
    const why = lost ? LOST : error.message;
    this.showState(`${why}. Retrying in ${wait / 1000} s; showing the last known state.`);
    this.timer = setTimeout(() => this.poll(), wait);
  }

  showState(text) {
    this.state.textContent = text;
    this.state.hidden = !text;
  }

  take(feed) {
    const fresh = new Map();
    for (const [id, points] of Object.entries(feed.points)) fresh.set(Number(id), this.add(Number(id), points));
    for (const [id, values] of Object.entries(feed.clients)) this.clients.set(Number(id), values);
    if (feed.log) this.showLog(feed.log);
    this.offerHold(feed.active);
    if (this.held) return; // a changed status is reported after unfreezing, because that redraws the page
    if (fresh.size) this.extend(fresh);
    if (Object.keys(feed.clients).length) this.redrawClients();
    this.describe();
    const known = this.data.runs.map((run) => run.status).join();
    const now = feed.runs.map((run) => run.status).join();
    if (known !== now) this.report(now);
    else this.reported = null;
  }

  // A changed status redraws the page; reported again if the page has not been redrawn after a while.
  report(now) {
    if (this.reported === now && Date.now() - this.reportedAt < REPEAT_MS) return;
    Object.assign(this, { reported: now, reportedAt: Date.now() });
    this.send("changed", this.reportedAt);
  }

  // The log scrolls to its end, unless the reader has scrolled up.
  showLog({ digest, text }) {
    const page = this.log.querySelector("pre");
    const follows = !this.logged || page.scrollHeight - page.scrollTop - page.clientHeight < 8;
    page.textContent = text;
    this.logged = digest;
    if (follows) page.scrollTop = page.scrollHeight;
  }

  // Frozen charts: new points are still fetched, but not drawn.

  hold() {
    const drawn = new Map([...this.points].map(([id, points]) => [id, points.round.length]));
    this.held = { drawn, clients: new Map(this.clients) };
    this.offerHold(true);
  }

  release() {
    const waiting = new Map([...this.points].map(([id, points]) => [id, part(points, this.held.drawn.get(id) ?? 0)]));
    this.forgetHold();
    this.extend(waiting);
    this.redrawClients();
    this.describe();
    this.poll();
  }

  forgetHold() {
    this.held = null;
    this.offerHold(this.data.runs.some((run) => run.status === "running"));
  }

  offerHold(active) {
    this.holder.hidden = !active && !this.held;
    this.holder.setAttribute("aria-pressed", Boolean(this.held));
    this.holder.textContent = this.held ? "Resume charts" : "Freeze charts";
    const waiting = [...this.points].map(([id, points]) => points.round.length - (this.held?.drawn.get(id) ?? 0));
    const most = this.held ? Math.max(0, ...waiting) : 0;
    this.note.textContent = this.held ? `Frozen. ${most || "No"} new ${most === 1 ? "point" : "points"}.` : "";
  }

  // The drawn points of a run.
  drawnOf(id) {
    const points = this.points.get(id);
    return points && this.held ? part(points, 0, this.held.drawn.get(id) ?? 0) : points;
  }

  // Appends points of a run; returns the new ones.
  add(id, points) {
    const known = this.points.get(id) ?? {};
    const last = known.round?.at(-1) ?? -1;
    const from = points.round.findIndex((round) => round > last);
    const fresh = {};
    for (const [name, values] of Object.entries(points)) {
      fresh[name] = from < 0 ? [] : values.slice(from);
      if (name === "megabytes" || name === "seconds") {
        let sum = known[name]?.at(-1) ?? 0;
        fresh[name] = fresh[name].map((value) => (sum += value ?? 0));
      }
      known[name] = (known[name] ?? []).concat(fresh[name]);
    }
    this.points.set(id, known);
    return fresh;
  }

  // Drawing: one figure at a time, and only the latest state. A failed one is drawn again with the next points.

  redraw() {
    const isWanted = () => drawn === this.drawn && !this.closed;
    const drawn = (this.drawn = Promise.allSettled([this.drawn]).then(() => this.draw(isWanted)));
    drawn.catch(() => isWanted() && (this.drawn = null));
    return drawn;
  }

  async draw(isWanted) {
    for (const [name, spec] of Object.entries(this.data.figures)) {
      this.figure(name).style.minHeight = `${spec.layout.height}px`; // until it is drawn
    }
    const Plotly = await loadPlotly(this.data.plotly);
    for (const [name, spec] of Object.entries(this.data.figures)) {
      if (!isWanted()) return;
      const traces = spec.data.map((trace) => ({ ...trace, ...this.valuesOf(trace.meta) }));
      await Plotly.react(this.figure(name), traces, { ...spec.layout }, config(name));
    }
    if (!isWanted()) return;
    this.followZoom();
    this.label();
    this.describe();
    this.cutLosses();
  }

  valuesOf(meta) {
    if (meta.y === "clients") return ecdf((this.held ?? this).clients.get(meta.run) ?? []);
    const points = this.drawnOf(meta.run);
    return { x: [...(points?.[meta.x] ?? [])], y: [...(points?.[meta.y] ?? [])] };
  }

  extend(fresh) {
    for (const [name, spec] of Object.entries(this.data.figures)) {
      const [x, y, which] = [[], [], []];
      spec.data.forEach(({ meta }, i) => {
        const points = meta.y !== "clients" && fresh.get(meta.run);
        if (!points || !points.round.length) return;
        x.push(points[meta.x]);
        y.push(points[meta.y]);
        which.push(i);
      });
      if (which.length) window.Plotly.extendTraces(this.figure(name), { x, y }, which);
    }
    this.label();
    this.cutLosses();
  }

  // Ends the axis of the losses, unless somebody zooms, and says so in the corner.
  cutLosses() {
    const spec = this.data.figures.loss;
    if (!spec) return;
    const lines = spec.data.map(({ meta }) => ({ y: meta.y, values: known(this.drawnOf(meta.run)?.[meta.y]) }));
    const first = lines.flatMap(({ y, values }) => (y === "loss" ? values.slice(0, 1) : []));
    const end = LOSSES_SHOWN * Math.max(...first);
    const isCut = first.length > 0 && lines.some(({ values }) => values.some((value) => value > end));
    const figure = this.figure("loss");
    const text = isCut ? `axis ends at ${Number(end.toPrecision(2))}` : "";
    if ((figure.layout.annotations?.[0]?.text ?? "") === text) return;
    const size = 0.85 * spec.layout.font.size;
    const place = { x: 1, y: 1, xref: "paper", yref: "paper", xanchor: "right", yanchor: "top", showarrow: false };
    window.Plotly.relayout(figure, {
      annotations: isCut ? [{ text, ...place, font: { size }, bgcolor: this.data.paper }] : [],
      "yaxis.autorangeoptions.clipmax": isCut ? end : null,
    });
  }

  redrawClients() {
    const spec = this.data.figures.clients;
    if (!spec) return;
    const values = spec.data.map((trace) => this.valuesOf(trace.meta));
    window.Plotly.restyle(this.figure("clients"), { x: values.map((v) => v.x), y: values.map((v) => v.y) });
  }

  followZoom() {
    const figure = this.figure("accuracy");
    if (figure.followed) return;
    figure.followed = true;
    figure.on("plotly_relayout", (changed) => {
      if (Object.keys(changed).some((key) => key.startsWith("yaxis"))) this.label();
    });
  }

  // The names of methods at the ends of their lines, one for all seeds, moved apart where they would overlap, then with
  // a line to their end. They are placed by share of the height: placed by value, they would extend the axis beyond
  // 100 %.
  label() {
    const figure = this.figure("accuracy");
    const axis = figure._fullLayout?.yaxis;
    if (!axis) return;
    const ends = new Map();
    for (const { meta, line } of this.data.figures.accuracy.data) {
      const points = this.drawnOf(meta.run);
      const value = points?.[meta.y].findLast((y) => y !== null);
      if (!meta.label || value === undefined) continue;
      const end = ends.get(meta.label) ?? { color: line.color, x: 0, values: [] };
      end.x = Math.max(end.x, points[meta.x].at(-1));
      end.values.push(value);
      ends.set(meta.label, end);
    }
    const narrow = figure.clientWidth < NARROW_PX;
    const labels = [...ends].map(([text, end]) => ({ text, ...end, y: mean(end.values) }));
    const line = LABEL_LINE * figure.layout.font.size;
    const endsPx = labels.map((label) => axis.l2p(label.y));
    const heights = spread(endsPx, line);
    const isMoved = heights.map((height, i) => Math.abs(height - endsPx[i]) > MOVED * line);
    const xshift = isMoved.some(Boolean) ? LED_PX : BESIDE_PX;
    const leaders = labels.map(({ x, color }, i) => ({
      text: "", x, y: 1 - endsPx[i] / axis._length, yref: "paper", showarrow: true, ax: xshift,
      ay: heights[i] - endsPx[i], arrowhead: 0, arrowwidth: 1, arrowcolor: color, standoff: 2,
    }));
    const annotations = leaders.filter((_, i) => isMoved[i]).concat(labels.map(({ text, x, color }, i) => ({
      text, x, y: 1 - heights[i] / axis._length, yref: "paper", yanchor: "middle", xshift, showarrow: false,
      xanchor: "left", font: { color }, bgcolor: this.data.paper,
    })));
    const room = narrow ? 16 : this.data.figures.accuracy.layout.margin.r;
    window.Plotly.relayout(figure, { annotations: narrow ? [] : annotations, "margin.r": room });
  }

  // The name of a figure tells the latest values of its lines, and the range of the clients' accuracies.
  describe() {
    for (const [name, spec] of Object.entries(this.data.figures)) {
      const ends = spec.data.map((trace) => [trace.name, this.endOf(trace.meta)]).filter(([, end]) => end);
      const words = [this.data.titles[name], ends.map((end) => end.join(" ")).join("; ")].filter(Boolean).join(". ");
      this.figure(name).setAttribute("aria-label", words);
    }
  }

  endOf(meta) {
    const { x, y } = this.valuesOf(meta);
    if (meta.y === "clients") return x.length ? `${short(x[0])} to ${short(x.at(-1))}` : "";
    const value = y.findLast((value) => value !== null);
    return value === undefined ? "" : String(short(value));
  }

  figures() {
    return [...this.board.querySelectorAll(".live-figure")];
  }

  figure(name) {
    let figure = this.board.querySelector(`[data-figure=${name}]`);
    if (!figure) {
      figure = document.createElement("div");
      figure.className = `live-figure ${LINES[name] ?? "small"}`;
      figure.dataset.figure = name;
      figure.setAttribute("role", "figure"); // not img: its buttons are inside
      figure.setAttribute("aria-label", this.data.titles[name]);
      this.board.append(figure);
    }
    return figure;
  }

  resize() {
    cancelAnimationFrame(this.resizing);
    this.resizing = requestAnimationFrame(() => {
      if (this.closed || !this.board.isConnected || this.board.clientWidth === 0) return; // removed from the page
      for (const figure of this.figures()) if (figure._fullLayout) window.Plotly.Plots.resize(figure);
      if (this.figures().length) this.label();
    });
  }

  // A row for each method: its seeds as dots that fill with progress. Clicking a dot selects its seed.

  listRuns(runs) {
    this.runs = runs;
    const methods = new Map();
    for (const run of runs) methods.set(run.label, [...(methods.get(run.label) ?? []), run]);
    for (const [label, seeds] of methods) this.showMethod(this.row(label), seeds);
    for (const row of [...this.list.children]) if (!methods.has(row.dataset.method)) row.remove();
  }

  row(label) {
    let row = [...this.list.children].find((row) => row.dataset.method === label);
    if (row) return row;
    row = document.createElement("li");
    row.className = "live-method";
    row.dataset.method = label;
    row.innerHTML = `<span class="live-name"><i></i><b></b></span><span class="live-seeds"></span>
      <span class="live-status"></span>
      <span class="live-bar" role="progressbar" aria-valuemin="0" aria-valuemax="100"><span></span></span>
      <span class="live-progress"></span><span class="live-actions"></span>`;
    row.querySelector("b").textContent = label;
    row.querySelector(".live-bar").setAttribute("aria-label", label);
    this.list.append(row);
    return row;
  }

  showMethod(row, seeds) {
    this.showSeeds(row.querySelector(".live-seeds"), seeds);
    const chosen = seeds.filter((run) => run.id === this.chosen);
    const shown = chosen.length ? chosen : seeds;
    const share = Math.round(100 * mean(shown.map((run) => run.share)));
    row.querySelector("i").style.background = this.data.swatches[seeds[0].id];
    row.dataset.status = MOST_URGENT.find((status) => shown.some((run) => run.status === status)) ?? shown[0].status;
    row.querySelector(".live-status").textContent = counted(shown.map((run) => run.status));
    row.querySelector(".live-bar span").style.width = `${share}%`;
    row.querySelector(".live-bar").setAttribute("aria-valuenow", share);
    row.querySelector(".live-progress").textContent = progress(shown, seeds.length > 1);
    this.offer(row.querySelector(".live-actions"), shown);
  }

  showSeeds(place, seeds) {
    const ids = seeds.map((run) => String(run.id));
    for (const dot of [...place.children]) if (!ids.includes(dot.dataset.run)) dot.remove();
    for (const run of seeds) {
      let dot = place.querySelector(`[data-run="${run.id}"]`);
      if (!dot) {
        dot = document.createElement("button");
        dot.type = "button";
        dot.className = "live-run";
        dot.dataset.run = run.id;
        dot.append(document.createElement("span"));
        dot.onclick = () => this.choose(run.id);
        place.append(dot);
      }
      const words = `${run.label}, seed ${run.seed}: ${run.status}${run.progress ? `, ${run.progress}` : ""}`;
      dot.dataset.status = run.status;
      dot.title = words;
      dot.setAttribute("aria-label", words);
      dot.setAttribute("aria-pressed", run.id === this.chosen);
      dot.style.setProperty("--share", `${100 * run.share}%`);
      dot.disabled = this.data.presenting;
    }
  }

  choose(id) {
    this.chosen = this.chosen === id ? null : id;
    this.listRuns(this.runs);
  }

  // The actions for these runs: cancelling is final, so it is offered for single runs only.
  offer(place, runs) {
    const offered = ["pause", "resume", "retry", ...(runs.length > 1 ? [] : ["cancel"])];
    const actions = offered.map((action) => [action, runs.filter((run) => run.actions.includes(action))]);
    const link = runs.map((run) => run.status === "diverged" && this.data.links[run.id]).find(Boolean);
    const ids = actions.map(([action, of]) => [action, of.map((run) => run.id)]);
    const wanted = JSON.stringify([ids, link, this.data.presenting]);
    if (place.dataset.offered === wanted) return;
    place.dataset.offered = wanted;
    const focused = [...place.children].indexOf(document.activeElement);
    place.replaceChildren();
    if (this.data.presenting) return;
    for (const [action, of] of actions) {
      if (!of.length) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = action;
      button.setAttribute("aria-label", `${action} ${of[0].label}, ${seedsOf(of)}`);
      button.onclick = () => this.send("action", { runs: of.map((run) => run.id), action });
      place.append(button);
    }
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link;
      anchor.textContent = "try lr / 3";
      place.append(anchor);
    }
    if (focused >= 0) (place.children[focused] ?? place.lastElementChild)?.focus();
  }
}

function counted(statuses) {
  const counts = new Map();
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].map(([status, n]) => (counts.size > 1 ? `${n} ${status}` : status)).join(", ");
}

function seedsOf(runs) {
  return `${runs.length > 1 ? "seeds" : "seed"} ${runs.map((run) => run.seed).join(", ")}`;
}

// Of several seeds the one to describe: the first with an error, else the first that trains, else the first.
function progress(runs, hasSeeds) {
  const described = runs.find((run) => run.error) ?? runs.find((run) => run.status === "running") ?? runs[0];
  const words = described.error ? `${described.progress} · ${described.error}` : described.progress;
  return hasSeeds ? `seed ${described.seed} · ${words}` : words;
}

// In small figures a row of buttons would cover the title: only the image button is shown.
function config(name) {
  const buttons = name === "accuracy"
    ? { modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d"] }
    : { modeBarButtons: [["toImage"]] };
  return {
    displaylogo: false, showSendToCloud: false, responsive: false, ...buttons,
    toImageButtonOptions: { format: "svg", filename: `fedscape-${name}` },
  };
}

function ecdf(values) {
  return { x: [...values.slice(0, 1), ...values], y: [0, ...values.map((_, i) => (100 * (i + 1)) / values.length)] };
}

function known(values) {
  return (values ?? []).filter((value) => value !== null);
}

function part(points, from, to) {
  return Object.fromEntries(Object.entries(points).map(([name, values]) => [name, values.slice(from, to)]));
}

function short(value) {
  return Number(value.toPrecision(4));
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

// The nearest positions from 0 on, in the same order, at least `gap` apart.
function spread(values, gap) {
  const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
  const groups = [];
  for (const i of order) {
    let group = { members: [i], center: values[i] };
    while (groups.length) {
      const before = groups.at(-1);
      if (group.center - before.center >= (gap * (group.members.length + before.members.length)) / 2) break;
      const members = [...before.members, ...group.members];
      group = { members, center: mean(members.map((k) => values[k])) };
      groups.pop();
    }
    groups.push(group);
  }
  const placed = [];
  for (const { members, center } of groups) {
    members.forEach((k, i) => (placed[k] = center + gap * (i - (members.length - 1) / 2)));
  }
  let free = 0;
  for (const k of order) {
    placed[k] = Math.max(placed[k], free);
    free = placed[k] + gap;
  }
  return placed;
}
