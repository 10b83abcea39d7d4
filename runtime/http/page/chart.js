// Lines over time as SVG, with a legend that tells them apart without colour too.
import {element} from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 480, HEIGHT = 150, LEFT = 56, BOTTOM = 18, TOP = 8;
const LINES = 8; // more in one chart can't be told apart

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes))
    made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A round number at or above the largest value.
function ceiling(value) {
  if (!(value > 0))
    return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999999);
}

// `series`: [{name, points: [[x, y], ...]}]; `x_text` and `y_text` write the ends of the axes.
export class Chart {
  constructor(title, {y_text = String, x_text = String, max} = {}) {
    Object.assign(this, {title, y_text, x_text, max});
    this.heading = element("h3", {}, title);
    this.plot = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img"});
    this.legend = element("ul", {class: "legend"});
    this.root = element("figure", {class: "chart"}, this.heading, this.plot, this.legend);
  }

  update(series) {
    const shown = series.filter((line) => line.points.length).slice(0, LINES);
    const all = shown.flatMap((line) => line.points);
    const x0 = Math.min(...all.map(([x]) => x)), x1 = Math.max(...all.map(([x]) => x));
    const y0 = Math.min(0, ...all.map(([, y]) => y));
    const y1 = this.max ?? ceiling(Math.max(...all.map(([, y]) => y)));
    const x_of = (x) => LEFT + (x1 > x0 ? (x - x0) / (x1 - x0) : 1) * (WIDTH - LEFT - 4);
    const y_of = (y) => TOP + (1 - (y - y0) / (y1 - y0 || 1)) * (HEIGHT - TOP - BOTTOM);
    this.plot.replaceChildren();
    this.plot.setAttribute("aria-label", shown.map((line) =>
      `${line.name || this.title}: ${this.y_text(line.points.at(-1)[1])}`).join("; ")
        || `${this.title}: no values yet`);
    if (!all.length) {
      this.legend.replaceChildren(element("li", {class: "empty"}, "No values yet."));
      return;
    }
    for (const y of [y0, (y0 + y1) / 2, y1])
      this.plot.append(
        svg("line", {x1: LEFT, x2: WIDTH - 4, y1: y_of(y), y2: y_of(y), class: "grid"}),
        svg("text", {x: LEFT - 6, y: y_of(y) + 4, class: "end"}, this.y_text(y)));
    this.plot.append(svg("text", {x: LEFT, y: HEIGHT - 4}, this.x_text(x0)),
      svg("text", {x: WIDTH - 4, y: HEIGHT - 4, class: "end"}, this.x_text(x1)));
    const place = ([x, y]) => `${x_of(x).toFixed(1)},${y_of(y).toFixed(1)}`;
    shown.forEach((line, i) => this.plot.append(
      svg("polyline", {class: `line line-${i}`, points: line.points.map(place).join(" ")})));
    this.legend.replaceChildren(...shown.map((line, i) => element("li", {class: `line-${i}`},
      `${line.name ? `${line.name}: ` : ""}${this.y_text(line.points.at(-1)[1])}`)));
    if (series.length > shown.length)
      this.legend.append(
        element("li", {class: "empty"}, `and ${series.length - shown.length} more`));
  }
}

// What was seen of some amounts since the page was opened: `keep` samples of each.
export class History {
  constructor(keep = 600) {
    this.keep = keep;
    this.lines = new Map();
  }

  add(name, x, y) {
    const points = this.lines.get(name) || [];
    if (points.length && points.at(-1)[0] >= x)
      return;
    points.push([x, y]);
    if (points.length > this.keep)
      points.shift();
    this.lines.set(name, points);
  }

  points(name) {
    return this.lines.get(name) || [];
  }
}
