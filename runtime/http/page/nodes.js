// The nodes of the cluster, and what they used since the page was opened.
import {element, amount, bytes, resources, duration} from "./dom.js";
import {Table, short_id} from "./table.js";
import {Chart} from "./chart.js";

// More than two heartbeats late.
function silence(node, now) {
  const seconds = node.heard_time ? (now - node.heard_time) / 1000 : 0;
  return seconds > 2 ? `, nothing heard for ${seconds.toFixed(0)} s` : "";
}

const total = (n, name) => (n.resources_total || {})[name] || 0;
const used = (n, name) => total(n, name) - ((n.resources_available || {})[name] || 0);

// [title, key, value of a node, how it is written]
export const FIGURES = [
  ["CPUs in use", "cpu", (n) => used(n, "CPU"), (y) => amount("CPU", y)],
  ["Memory of the host", "memory", (n) => n.memory_used || 0, bytes],
  ["Object store", "store", (n) => n.store_used || 0, bytes],
  ["Workers", "workers", (n) => n.workers || 0, (y) => amount("", y)],
  ["Network received", "network_received", (n) => n.network_received_per_s, (y) => `${bytes(y)}/s`],
  ["Network sent", "network_sent", (n) => n.network_sent_per_s, (y) => `${bytes(y)}/s`],
];

const name_of = (n) =>
  n.hostname ? `${n.hostname} ${n.node_id.slice(0, 6)}` : n.node_id.slice(0, 12);
const address_of = (n) =>
  `${n.ip || ""}${n.hostname ? ` (${n.hostname})` : ""}${n.is_head_node ? ", head" : ""}`;

export class Nodes {
  constructor() {
    this.now = 0;
    this.table = new Table({id: "nodes", caption: "Nodes", empty: "No node has joined.",
      key: (n) => n.node_id,
      columns: [
        {title: "Node", kind: "id", of: (n) => short_id(n.node_id), sort: (n) => n.node_id},
        {title: "State", of: (n) => ({state: n.state, title: n.state_message || ""}),
          sort: (n) => n.state},
        {title: "Address", kind: "long", of: (n) => address_of(n)
          + (n.state === "ALIVE" ? silence(n, this.now) : `: ${n.state_message || ""}`),
          sort: (n) => n.ip},
        {title: "CPU", of: (n) => n.state === "ALIVE"
          ? `${amount("CPU", used(n, "CPU"))} of ${amount("CPU", total(n, "CPU"))}` : "",
          sort: (n) => used(n, "CPU")},
        {title: "Memory", of: (n) => n.state === "ALIVE"
          ? `${bytes(n.memory_used || 0)} of ${bytes(n.memory_bytes || 0)}` : "",
          sort: (n) => n.memory_used || 0},
        {title: "Object store", of: (n) => n.state === "ALIVE"
          ? `${bytes(n.store_used || 0)} of ${bytes(n.store_bytes || 0)}`
            + (n.spilled_bytes ? `, on disk ${bytes(n.spilled_bytes)}` : "")
            + (n.spill_trouble ? `; ${n.spill_trouble}` : "") : "",
          sort: (n) => n.store_used || 0},
        {title: "Workers", kind: "number", of: (n) => n.state === "ALIVE" ? n.workers ?? 0 : "",
          sort: (n) => n.workers || 0},
        {title: "Has", kind: "long", of: (n) => resources(n.resources_total)
          + (n.labels && typeof n.labels === "string" ? `; ${n.labels}` : "")},
        {title: "Up", kind: "number", of: (n) => n.start_time
          ? duration((n.end_time || this.now) - n.start_time) : "",
          sort: (n) => n.start_time || 0}]});
    this.charts = FIGURES.map(([title, , , y_text]) =>
      new Chart(title, {y_text, x_text: (x) => new Date(x).toLocaleTimeString()}));
    this.root = element("div", {},
      element("section", {class: "card"}, element("h2", {}, "Nodes"), this.table.root),
      element("section", {class: "card"},
        element("h2", {}, "Over time, since this page was opened"),
        element("div", {class: "charts"}, ...this.charts.map((chart) => chart.root))));
  }

  update(cluster) {
    const own = cluster.status.crt;
    const living = (own.nodes || []).filter((n) => n.state === "ALIVE");
    this.now = own.time || 0;
    this.table.update(own.nodes || []);
    FIGURES.forEach(([, key, of], i) => {
      this.charts[i].root.hidden = !living.some((n) => of(n) !== undefined);
      this.charts[i].update(living.map((n) =>
        ({name: name_of(n), points: cluster.history.points(`${n.node_id} ${key}`)})));
    });
  }
}
