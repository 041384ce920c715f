// Draws the charts with uPlot, replacing the lines that the server drew.

const inks = {
  processed: "--active", failed: "--archived", pending: "--pending", retry: "--retry", active: "--active",
  latency: "--scheduled", archived: "--archived", scheduled: "--scheduled", busy: "--active", redis_memory: "--scheduled", redis_ops: "--pending",
  duration_p50: "--active", duration_p95: "--pending", duration_p99: "--archived", wait_p50: "--active", wait_p95: "--pending", wait_p99: "--archived",
};
const charts = new Map(); // by figure
const sources = new Map(); // by URL: the points of all charts with the same queue and time range
let uPlot; // loaded by pages with charts

// steps lists the allowed distances of ticks by unit. Counts have no fractions, and minutes have 60
// seconds.
const tens = (from) => Array.from({ length: 13 }, (_, n) => [1, 2, 5].map((step) => step * 10 ** (n + from))).flat();
const steps = {
  "": tens(0),
  "/s": tens(-2),
  s: [...tens(-3).filter((n) => n < 10), 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, ...tens(0).map((n) => n * 172800)],
  B: Array.from({ length: 50 }, (_, n) => 2 ** n),
};

export async function drawCharts() {
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  if (figures.length === 0) return;
  const library = import(document.body.dataset.plot);
  await load(figures);
  ({ default: uPlot } = await library);
  for (const figure of figures) draw(figure);
  document.body.addEventListener("snapshot", refresh);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  new ResizeObserver(() => charts.forEach((chart, figure) => chart.plot.setSize(size(figure)))).observe(document.getElementById("main"));
}

function redraw() {
  for (const [figure, chart] of [...charts]) { // a copy, because draw adds the figure again
    chart.plot.destroy();
    charts.delete(figure);
    draw(figure);
  }
}

function draw(figure) {
  const data = points(figure);
  if (!data) return;
  const box = figure.querySelector(".plot");
  box.replaceChildren();
  const values = document.createElement("div");
  values.className = "values";
  figure.querySelector(".values")?.remove();
  figure.append(values);
  const names = figure.dataset.names.split(",");
  const faint = color("--faint");
  const grid = { stroke: color("--line"), width: 1 };
  const axis = { stroke: faint, grid, ticks: { show: false }, font: "11px Inter, system-ui, sans-serif" };
  const plot = new uPlot({
    ...size(figure),
    padding: [8, 1, 0, 0],
    cursor: { y: false, points: { size: 7 }, sync: { key: "all" } },
    legend: { show: false },
    scales: { y: { range: (_, low, high) => [0, (high > 0 ? high : 1) * 1.08] } },
    axes: [
      { ...axis, size: 22, gap: 6, space: 70, values: (u, ticks) => ticks.map((n) => (within(u, n) ? clock(n) : "")) },
      {
        ...axis, gap: 8, space: 24, incrs: steps[figure.dataset.unit],
        size: (_, labels) => Math.max(34, ...(labels ?? []).map((label) => 6.3 * label.length + 12)),
        values: (_, ticks, _axis, _space, step) => ticks.map((n) => tick(n, step, figure.dataset.unit)),
      },
    ],
    series: [{}, ...names.map((name) => ({
      label: name.replace(/^(redis|duration|wait)_/, ""), stroke: color(inks[name]), width: 1.6, points: { show: (u, i) => u.data[i].filter((v) => v != null).length < 3 }, fill: names.length === 1 ? color(inks[name], 0.1) : undefined,
    }))],
    hooks: { setCursor: [(u) => showValues(u, values, figure.dataset.unit)], setData: [(u) => showValues(u, values, figure.dataset.unit)] },
  }, data, box);
  charts.set(figure, { plot });
  showValues(plot, values, figure.dataset.unit);
}

async function refresh() {
  for (const figure of [...charts.keys()]) if (!figure.isConnected) charts.delete(figure);
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  await load(figures);
  for (const figure of figures) {
    const chart = charts.get(figure);
    const data = points(figure);
    if (!chart) draw(figure); // it has just appeared
    else if (data) chart.plot.setData(data);
  }
}

// sourceOf returns the URL of the points of a chart, without its metrics.
function sourceOf(figure) {
  const url = new URL(figure.dataset.chart, location);
  url.searchParams.delete("metrics");
  return url.href;
}

// load requests the points of charts: all of them first, and later those since the last one, which
// may have changed.
async function load(figures) {
  for (const [key, shown] of Map.groupBy(figures, sourceOf)) {
    const names = [...new Set(shown.flatMap((figure) => figure.dataset.names.split(",")))];
    const had = sources.get(key);
    const old = had && names.every((name) => had.values[name]) ? had : undefined; // a chart that has just appeared needs all points
    const since = old?.times.at(-1);
    const url = new URL(key);
    url.searchParams.set("metrics", names.join(","));
    if (since !== undefined) url.searchParams.set("since", since);
    try {
      const response = await fetch(url, { headers: { Accept: "application/json" } });
      if (!response.ok) continue;
      sources.set(key, joined(old, await response.json(), names));
    } catch {
      continue; // retried at the next snapshot
    }
  }
}

// joined appends new points, and drops as many old ones.
function joined(old, fresh, names) {
  if (!old || fresh.times.length === 0) return old ?? fresh;
  const keep = old.times.filter((time) => time < fresh.times[0]).length;
  const from = Math.max(0, keep + fresh.times.length - old.times.length);
  const join = (was, now) => [...was.slice(from, keep), ...now];
  return { times: join(old.times, fresh.times), values: Object.fromEntries(names.map((name) => [name, join(old.values[name], fresh.values[name])])) };
}

// points returns the points of a chart: the times, and the values of each metric.
function points(figure) {
  const source = sources.get(sourceOf(figure));
  return source && known([source.times, ...figure.dataset.names.split(",").map((name) => source.values[name])]);
}

// known drops the times before the first value, so that a short history fills the chart. It keeps
// at least a fifth of the span.
function known(data) {
  const [times, ...lines] = data;
  const first = times.findIndex((_, i) => lines.some((line) => line[i] != null));
  const from = Math.max(0, Math.min(first, Math.floor(times.length * 0.8)));
  return data.map((values) => values.slice(from));
}

// showValues writes the values at the cursor or, without a cursor, the latest ones.
function showValues(plot, box, unit) {
  const at = plot.cursor.idx ?? plot.data[0].length - 1;
  box.replaceChildren(...plot.series.slice(1).map((series, i) => {
    const value = plot.data[i + 1][at];
    const span = document.createElement("span");
    const mark = document.createElement("i");
    mark.style.background = series.stroke();
    const number = document.createElement("b");
    number.textContent = value == null ? "–" : quantity(value, unit);
    span.append(mark, series.label + " ", number);
    return span;
  }));
}

function size(figure) {
  const box = figure.querySelector(".plot");
  return { width: box.clientWidth, height: box.clientHeight };
}

// color returns a color of tokens.css in the current theme, with the given opacity.
function color(name, opacity = 1) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g);
  probe.remove();
  return `rgb(${red} ${green} ${blue} / ${opacity})`;
}

// within reports whether the label of a time fits. A label at the right edge would be clipped.
function within(plot, moment) {
  const { min, max } = plot.scales.x;
  return ((max - moment) / (max - min)) * plot.width > 26;
}

// tick formats a number on an axis with the given step. All numbers of an axis have the same number
// of decimals.
function tick(n, step, unit) {
  if (unit === "/s") return n === 0 || Math.abs(n) >= 1000 ? short(n) : n.toFixed(step < 0.1 ? 2 : step < 1 ? 1 : 0);
  return quantity(n, unit);
}

// clock formats a time on an axis: the time of day, or the date at midnight.
function clock(seconds) {
  const moment = new Date(seconds * 1000);
  const pad = (n) => String(n).padStart(2, "0");
  if (moment.getHours() === 0 && moment.getMinutes() === 0) return moment.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  return `${pad(moment.getHours())}:${pad(moment.getMinutes())}` + (moment.getSeconds() > 0 ? ":" + pad(moment.getSeconds()) : "");
}

// quantity formats a number with its unit. Bytes use units of 1,024; seconds become minutes, hours
// and days.
function quantity(n, unit) {
  if (unit === "s") return span(n);
  if (unit !== "B") return short(n) + unit;
  for (const prefix of ["", "Ki", "Mi", "Gi", "Ti"]) {
    if (Math.abs(n) < 1023.5 || prefix === "Ti") return (Number.isInteger(n) || n >= 99.95 ? Math.round(n) : n.toFixed(1)) + " " + prefix + "B";
    n /= 1024;
  }
}

function span(n) {
  if (n > 0 && n < 1) return Math.round(n * 1000) + "ms";
  if (n < 10) return (Number.isInteger(n) ? n : n.toFixed(1)) + "s";
  n = Math.trunc(n);
  for (const [size, name, small, smallName] of [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]]) {
    const rest = Math.trunc((n % size) / small);
    if (n >= size) return Math.trunc(n / size) + name + (rest > 0 ? ` ${rest}${smallName}` : "");
  }
  return n + "s";
}

function short(n) {
  for (const unit of ["", "k", "M"]) {
    if (Math.abs(n) < 999.5 || unit === "M") return (Math.abs(n) >= 99.95 || Number.isInteger(n) ? Math.round(n) : n.toFixed(Math.abs(n) < 1 && n !== 0 ? 2 : 1)) + unit;
    n /= 1000;
  }
}
