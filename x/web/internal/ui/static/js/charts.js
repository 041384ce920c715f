// Draws the charts with uPlot, in place of the lines that the server drew.

import uPlot from "../vendor/uplot.js";

const inks = {
  processed: "--active", failed: "--archived", pending: "--pending", retry: "--retry", active: "--active",
  latency: "--scheduled", archived: "--archived", scheduled: "--scheduled", busy: "--active", redis_memory: "--scheduled", redis_ops: "--pending",
};
const charts = new Map(); // by figure
const binary = Array.from({ length: 50 }, (_, n) => 2 ** n); // steps of an axis of bytes

export function drawCharts() {
  const figures = document.querySelectorAll("figure[data-chart]");
  if (figures.length === 0) return;
  for (const figure of figures) draw(figure);
  document.body.addEventListener("snapshot", () => charts.forEach((chart, figure) => refresh(figure, chart)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  new ResizeObserver(() => charts.forEach((chart, figure) => chart.plot.setSize(size(figure)))).observe(document.getElementById("main"));
}

function redraw() {
  for (const [figure, chart] of charts) {
    chart.plot.destroy();
    charts.delete(figure);
    draw(figure);
  }
}

async function draw(figure) {
  const data = await load(figure);
  if (!data) return;
  const box = figure.querySelector(".plot");
  box.replaceChildren();
  const values = document.createElement("div");
  values.className = "values";
  figure.querySelector(".values")?.remove();
  figure.append(values);
  const names = figure.dataset.names.split(",");
  const faint = colour("--faint");
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: faint, grid, ticks: { show: false }, font: "11px Inter, system-ui, sans-serif" };
  const plot = new uPlot({
    ...size(figure),
    padding: [10, 8, 0, 0],
    cursor: { y: false, points: { size: 7 }, sync: { key: "all" } },
    legend: { show: false },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [{ ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: figure.dataset.unit === "B" ? 62 : 46, ...(figure.dataset.unit === "B" ? { incrs: binary } : {}), values: (_, ticks) => ticks.map((n) => quantity(n, figure.dataset.unit.replace("/s", ""))) }],
    series: [{}, ...names.map((name) => ({
      label: name.replace("redis_", ""), stroke: colour(inks[name]), width: 1.6, points: { show: (u, i) => u.data[i].filter((v) => v != null).length < 3 }, fill: names.length === 1 ? colour(inks[name], 0.1) : undefined,
    }))],
    hooks: { setCursor: [(u) => tell(u, values, figure.dataset.unit)], setData: [(u) => tell(u, values, figure.dataset.unit)] },
  }, data, box);
  charts.set(figure, { plot });
  tell(plot, values, figure.dataset.unit);
}

async function refresh(figure, chart) {
  if (!figure.isConnected) return charts.delete(figure);
  const data = await load(figure);
  if (data) chart.plot.setData(data);
}

async function load(figure) {
  try {
    const response = await fetch(figure.dataset.chart, { headers: { Accept: "application/json" } });
    if (!response.ok) return undefined;
    const series = await response.json();
    return known([series.times, ...figure.dataset.names.split(",").map((name) => series.values[name])]);
  } catch {
    return undefined; // the next snapshot brings it
  }
}

// known leaves out what is before the first value, so that a young history is seen, but leaves a fifth of the span at least.
function known(data) {
  const [times, ...lines] = data;
  const first = times.findIndex((_, i) => lines.some((line) => line[i] != null));
  const from = Math.max(0, Math.min(first, Math.floor(times.length * 0.8)));
  return data.map((values) => values.slice(from));
}

// tell writes the values under the cursor, or the latest.
function tell(plot, box, unit) {
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

// colour is a colour of tokens.css in the look that is seen, with some opacity.
function colour(name, opacity = 1) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g);
  probe.remove();
  return `rgb(${red} ${green} ${blue} / ${opacity})`;
}

// clock is a moment of an axis: the time of the day, and at midnight the day.
function clock(seconds) {
  const moment = new Date(seconds * 1000);
  const pad = (n) => String(n).padStart(2, "0");
  if (moment.getHours() === 0 && moment.getMinutes() === 0) return moment.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  return `${pad(moment.getHours())}:${pad(moment.getMinutes())}` + (moment.getSeconds() > 0 ? ":" + pad(moment.getSeconds()) : "");
}

// quantity is a number with its unit; bytes are counted in units of 1,024.
function quantity(n, unit) {
  if (unit !== "B") return short(n) + unit;
  for (const prefix of ["", "Ki", "Mi", "Gi", "Ti"]) {
    if (Math.abs(n) < 1023.5 || prefix === "Ti") return (Number.isInteger(n) || n >= 99.95 ? Math.round(n) : n.toFixed(1)) + " " + prefix + "B";
    n /= 1024;
  }
}

function short(n) {
  for (const unit of ["", "k", "M"]) {
    if (Math.abs(n) < 999.5 || unit === "M") return (Math.abs(n) >= 99.95 || Number.isInteger(n) ? Math.round(n) : n.toFixed(Math.abs(n) < 1 && n !== 0 ? 2 : 1)) + unit;
    n /= 1000;
  }
}
