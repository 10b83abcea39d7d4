// Elements, and how amounts, times and states are written. What is shown is set as text, never as
// HTML: names and messages come from users' programs.

export const $ = (id) => document.getElementById(id);

// element("a", {href: "#/jobs", class: "id", onclick: f}, "text", other elements ...)
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on"))
      made.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean")
      made.toggleAttribute(name, value);
    else if (value !== undefined && value !== null)
      made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

const is_bytes = (name) => name === "memory" || name.endsWith("_memory") || name.endsWith("_bytes");

export const amount = (name, n) =>
  is_bytes(name) ? bytes(n) : String(Math.round(n * 10000) / 10000);

// Every node has its address as a resource, for who wants to run there.
export const is_address = (name) => name.startsWith("node:");

export function resources(table) {
  return Object.entries(table || {}).filter(([name, n]) => !is_address(name) || n !== 1)
    .map(([name, n]) => `${amount(name, n)} ${name}`).join(", ");
}

export function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60)
    return ms < 10000 && ms % 1000 ? `${(ms / 1000).toFixed(ms < 1000 ? 3 : 1)} s` : `${s} s`;
  if (s < 3600)
    return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
}

export function time(ms) {
  if (!ms)
    return "";
  const at = new Date(ms);
  const is_today = at.toDateString() === new Date().toDateString();
  return is_today ? at.toLocaleTimeString() : at.toLocaleString();
}

const KINDS = {
  ALIVE: "good", RUNNING: "good", SUCCEEDED: "good", FINISHED: "good", CREATED: "good",
  DEAD: "bad", FAILED: "bad",
  AWAY: "wait", PENDING: "wait", PENDING_CREATION: "wait", RESTARTING: "wait",
  RESCHEDULING: "wait", STARTING: "wait",
  DRAINING: "wait",
};

export const kind_of = (state) => KINDS[state] || (state.startsWith("PENDING") ? "wait" : "");

export function badge(state) {
  return element("span", {class: `badge ${kind_of(state)}`}, state);
}

// Asks before what can't be undone.
export function confirmed(question, action) {
  return new Promise((answer) => {
    const dialog = element("dialog", {"aria-label": question},
      element("p", {}, question),
      element("form", {method: "dialog", class: "row"},
        element("button", {value: "yes", class: "danger"}, action),
        element("button", {value: "no", class: "quiet"}, "Cancel")));
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
