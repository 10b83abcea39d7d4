// A table that is filled again and again: rows stay the same elements as long as their key does, so
// that focus, selection and scrolling survive. On a phone each row is a block of labelled lines.
import {element, badge} from "./dom.js";

// A column: {title, of: (row) => what its cell shows, kind: "number" | "id" | "long",
// sort: (row) => number or text}. A cell shows a text, or {text, title, href, state}; `state` is a
// badge.
export class Table {
  // `size` rows are on a page. `on_page(page)`: the rows of a page are fetched, update() gets those
  // alone.
  constructor({id, caption, columns, key, empty, size = 50, on_page}) {
    Object.assign(this, {columns, key, size, on_page, rows: [], total: 0, page: 0, sorted: null,
      downward: false});
    this.body = element("tbody", {id});
    this.heads = columns.map((column) => this.#head(column));
    this.table = element("table", {}, element("caption", {class: "unseen"}, caption),
      element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    this.empty = element("p", {class: "empty", id: id && `${id}-empty`, hidden: true}, empty);
    this.place = element("span", {class: "soft"});
    this.back = element("button", {class: "quiet", type: "button", onclick: () => this.#turn(-1)},
      "Previous");
    this.on = element("button", {class: "quiet", type: "button", onclick: () => this.#turn(1)},
      "Next");
    this.pager = element("div", {class: "row pager", hidden: true}, this.back, this.place, this.on);
    this.root = element("div", {class: "table"}, this.table, this.empty, this.pager);
  }

  #head(column) {
    const head = element("th", {scope: "col", class: column.kind === "number" ? "number" : null});
    if (column.sort)
      head.append(element("button", {type: "button", class: "sort",
        onclick: () => this.#sort(column)}, column.title));
    else
      head.append(column.title);
    return head;
  }

  #sort(column) {
    this.downward = this.sorted === column && !this.downward;
    this.sorted = column;
    this.columns.forEach((other, i) => other === column
      ? this.heads[i].setAttribute("aria-sort", this.downward ? "descending" : "ascending")
      : this.heads[i].removeAttribute("aria-sort"));
    this.#show();
  }

  #turn(by) {
    this.page += by;
    if (this.on_page)
      this.on_page(this.page);
    else
      this.#show();
  }

  update(rows, total = rows.length) {
    this.rows = rows;
    this.total = total;
    this.#show();
  }

  #visible() {
    let rows = this.rows;
    if (this.sorted) {
      const of = this.sorted.sort, sign = this.downward ? -1 : 1;
      rows = [...rows].sort((a, b) => sign * (of(a) > of(b) ? 1 : of(a) < of(b) ? -1 : 0));
    }
    return this.on_page ? rows : rows.slice(this.page * this.size, (this.page + 1) * this.size);
  }

  #show() {
    const pages = Math.max(1, Math.ceil(this.total / this.size));
    this.page = Math.min(this.page, pages - 1);
    this.table.hidden = this.total === 0;
    this.empty.hidden = this.total !== 0;
    this.pager.hidden = pages === 1;
    this.place.textContent = `page ${this.page + 1} of ${pages}, ${this.total} in all`;
    this.back.disabled = this.page === 0;
    this.on.disabled = this.page === pages - 1;
    this.#fill(this.#visible());
  }

  #fill(rows) {
    const old = new Map([...this.body.rows].map((row) => [row.dataset.key, row]));
    let at = this.body.firstElementChild;
    for (const row of rows) {
      const key = String(this.key(row));
      const shown = old.get(key) || this.#row(key);
      old.delete(key);
      this.columns.forEach((column, i) => fill_cell(shown.cells[i], column.of(row)));
      if (shown === at)
        at = at.nextElementSibling;
      else
        this.body.insertBefore(shown, at);
    }
    old.forEach((row) => row.remove());
  }

  #row(key) {
    const row = element("tr", {"data-key": key});
    for (const column of this.columns)
      row.append(element("td", {class: column.kind, "data-label": column.title}));
    return row;
  }
}

function fill_cell(cell, shown) {
  const {text = "", title = "", href = "", state = ""} =
    typeof shown === "object" && shown !== null ? shown : {text: String(shown ?? "")};
  const sign = [state, href, title, text].join("\n");
  if (cell.shown === sign)
    return;
  cell.shown = sign;
  cell.title = title;
  if (state)
    cell.replaceChildren(badge(state));
  else if (href)
    cell.replaceChildren(element("a", {href}, text));
  else
    cell.textContent = text;
}

export const short_id = (id) => ({text: (id || "").slice(0, 12), title: id || ""});
