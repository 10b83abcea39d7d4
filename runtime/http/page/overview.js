// The cluster at a glance: what there is, what is used, what waits and why, what happened.
import {element, amount, is_address, resources, time} from "./dom.js";
import {Table} from "./table.js";
import {state, NotThere} from "./server.js";

const EVENTS = 20;

function tile(id, text, href) {
  return element("a", {class: "tile", href}, element("b", {id}, "0"), element("span", {}, text));
}

// A bar with its amounts beside it.
function meter(name) {
  const left = element("span", {}, name.replaceAll("_", " ")), right = element("span");
  const used = element("div", {class: "used"});
  const bar = element("div", {class: "meter", role: "meter", "aria-label": name,
    "aria-valuemin": 0}, used);
  const root = element("div", {}, element("div", {class: "meter-label"}, left, right), bar);
  return {root, update(now, total) {
    right.textContent = `${amount(name, now)} of ${amount(name, total)}`;
    bar.setAttribute("aria-valuenow", now);
    bar.setAttribute("aria-valuemax", total || 1);
    bar.setAttribute("aria-valuetext", right.textContent);
    used.style.width = `${total ? Math.min(100, 100 * now / total) : 0}%`;
    used.classList.toggle("full", total > 0 && now / total > 0.95);
  }};
}

class Meters {
  constructor() {
    this.meters = new Map();
    this.box = element("div", {id: "resources", class: "meters"});
    this.empty = element("p", {class: "empty", id: "resources-empty"},
      "No resources yet: no node has joined.");
    this.root = element("section", {class: "card"}, element("h2", {}, "Resources"), this.box,
      this.empty);
  }

  update(amounts) {
    for (const name of [...this.meters.keys()].filter((name) => !amounts.has(name))) {
      this.meters.get(name).root.remove();
      this.meters.delete(name);
    }
    for (const [name, [used, total]] of amounts) {
      if (!this.meters.has(name)) {
        this.meters.set(name, meter(name));
        this.box.append(this.meters.get(name).root);
      }
      this.meters.get(name).update(used, total);
    }
    this.empty.hidden = amounts.size !== 0;
  }
}

function amounts_of(status) {
  const usage = status.loadMetricsReport.usage;
  const living = (status.crt.nodes || []).filter((n) => n.state === "ALIVE");
  const store = (key) => living.reduce((sum, n) => sum + (n[key] || 0), 0);
  const amounts = new Map(Object.keys(usage).filter((name) => !is_address(name)).sort()
    .map((name) => [name, usage[name]]));
  if (store("store_bytes"))
    amounts.set("object_store_memory", [store("store_used"), store("store_bytes")]);
  return amounts;
}

export class Overview {
  constructor() {
    this.meters = new Meters();
    this.demand = new Table({id: "demand", caption: "What waits", empty: "Nothing waits.", size: 20,
      key: (d) => JSON.stringify([d.kind, d.name, d.resources, d.reason]),
      columns: [
        {title: "What", of: (d) => `${d.kind || ""} ${d.name || ""}`},
        {title: "Needs", of: (d) => resources(d.resources) || "nothing"},
        {title: "Count", kind: "number", of: (d) => d.count ?? ""},
        {title: "Why it waits", kind: "long", of: (d) => d.reason || ""}]});
    this.types = new Table({id: "node-types", caption: "Node types", empty: "No node types.",
      size: 20, key: (t) => t.name,
      columns: [
        {title: "Node type", of: (t) => t.name},
        {title: "Min", kind: "number", of: (t) => t.min},
        {title: "Max", kind: "number", of: (t) => t.max},
        {title: "Nodes", kind: "number", of: (t) => t.instances.RUNNING},
        {title: "Coming", kind: "number", of: (t) => t.instances.ASKED + t.instances.STARTING},
        {title: "Ending", kind: "number", of: (t) => t.instances.DRAINING + t.instances.ENDING},
        {title: "Message", kind: "long", of: (t) => t.message || ""}]});
    this.scale_waits = element("p", {id: "autoscaler-waits", class: "empty"});
    this.scale_card = element("section", {class: "card", hidden: true},
      element("h2", {}, "Autoscaler"), this.types.root, this.scale_waits);
    this.events = new Table({id: "events", caption: "Events", empty: "Nothing has happened yet.",
      size: EVENTS,
      key: (e) => e.event_id || JSON.stringify(e),
      columns: [
        {title: "Time", of: (e) =>
          typeof e.time === "number" ? time(e.time) : e.time || e.timestamp || ""},
        {title: "Severity", of: (e) => e.severity || ""},
        {title: "What happened", kind: "long", of: (e) => e.message || ""}]});
    this.events_card = element("section", {class: "card", hidden: true},
      element("h2", {}, "Events"), this.events.root);
    this.root = element("div", {},
      element("section", {class: "tiles", "aria-label": "Overview"},
        tile("count-nodes", "nodes", "#/nodes"),
        tile("count-actors", "actors alive", "#/actors"),
        tile("count-running", "jobs running", "#/jobs"),
        tile("count-demand", "requests waiting", "#/overview")),
      this.meters.root,
      element("section", {class: "card"}, element("h2", {}, "Waiting"), this.demand.root),
      this.scale_card,
      this.events_card);
  }

  async load() {
    try {
      return this.has_no_events ? null : await state("cluster_events", {limit: EVENTS});
    } catch (error) {
      if (!(error instanceof NotThere))
        throw error;
      this.has_no_events = true; // an older server
      return null;
    }
  }

  update(cluster, events) {
    const own = cluster.status.crt;
    const count = {nodes: (own.nodes || []).filter((n) => n.state === "ALIVE").length,
      actors: (own.actors || {}).ALIVE || 0,
      running: (own.jobs || {}).RUNNING || 0,
      demand: (own.demand || []).reduce((sum, d) => sum + (d.count || 0), 0)};
    for (const [name, n] of Object.entries(count))
      this.root.querySelector(`#count-${name}`).textContent = n;
    this.meters.update(amounts_of(cluster.status));
    this.demand.update(own.demand || []);
    this.scale_card.hidden = !own.autoscaler;
    if (own.autoscaler) {
      this.types.update(own.autoscaler.node_types || []);
      this.scale_waits.textContent = own.autoscaler.waits || own.autoscaler.provider_message || "";
    }
    this.events_card.hidden = !events;
    if (events)
      this.events.update(events.rows);
  }
}
