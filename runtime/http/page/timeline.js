// What ran where and when: a line for each worker, a bar for each attempt of a task.
import {element, duration, kind_of} from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000, LANE = 20, LEFT = 120, TOP = 18;
const LANES = 40;

function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes))
    made.setAttribute(name, value);
  if (text !== undefined)
    made.textContent = text;
  return made;
}

export class Timeline {
  constructor() {
    this.plot = svg("svg", {class: "timeline", role: "img", "aria-label": "Timeline of tasks"});
    this.note = element("p", {class: "empty"});
    this.root = element("details", {id: "timeline"}, element("summary", {}, "Timeline"),
      this.note, this.plot);
    this.root.addEventListener("toggle",
      () => this.root.dispatchEvent(new CustomEvent("again", {bubbles: true})));
  }

  get is_open() {
    return this.root.open;
  }

  update(rows) {
    if (!this.is_open)
      return;
    const now = Date.now();
    const tasks = rows.filter((t) => t.start_time_ms)
      .map((t) => ({...t, end: t.end_time_ms || now}));
    const lane_of = (t) => `${t.worker_pid ?? (t.worker_id || "").slice(0, 12)}`;
    const lanes = [...new Set(tasks.map(lane_of))];
    const shown = lanes.slice(0, LANES);
    const from = Math.min(...tasks.map((t) => t.start_time_ms));
    const to = Math.max(...tasks.map((t) => t.end));
    const height = TOP + shown.length * LANE;
    const x_of = (at) => LEFT + (to > from ? (at - from) / (to - from) : 0) * (WIDTH - LEFT - 4);
    const more = lanes.length > LANES
      ? `; ${lanes.length - LANES} more workers are not shown` : "";
    this.note.textContent = tasks.length
      ? `${tasks.length} attempts within ${duration(to - from)}${more}` : "No task has begun yet.";
    this.plot.setAttribute("viewBox", `0 0 ${WIDTH} ${height || 1}`);
    this.plot.replaceChildren();
    if (!tasks.length)
      return;
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const at = from + part * (to - from);
      this.plot.append(svg("line", {class: "grid", x1: x_of(at), x2: x_of(at), y1: TOP,
        y2: height}),
        svg("text", {x: x_of(at), y: 12, class: part ? "end" : ""}, `+${duration(at - from)}`));
    }
    shown.forEach((lane, i) => this.plot.append(
      svg("text", {x: 0, y: TOP + i * LANE + 14}, `process ${lane}`)));
    for (const t of tasks) {
      const lane = shown.indexOf(`${t.worker_pid ?? (t.worker_id || "").slice(0, 12)}`);
      if (lane < 0)
        continue;
      const bar = svg("rect", {class: `task ${kind_of(t.state) || "calm"}`,
        x: x_of(t.start_time_ms), y: TOP + lane * LANE + 2,
        width: Math.max(1, x_of(t.end) - x_of(t.start_time_ms)), height: LANE - 4, rx: 2});
      bar.append(
        svg("title", {}, `${t.name || ""} ${t.state}, ${duration(t.end - t.start_time_ms)}`));
      this.plot.append(bar);
    }
  }
}
