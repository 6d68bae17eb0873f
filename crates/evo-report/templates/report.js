"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const make = (name, text, className) => {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};
const errors = [];
const check = (holds, what) => { if (!holds) errors.push(what); };

// Nanoseconds as the page itself shows them.
const time = (ns) => {
  const [value, unit] = ns < 1e3 ? [ns, "ns"] : ns < 1e6 ? [ns / 1e3, "µs"] : ns < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
  return value.toFixed(value < 10 ? 3 : value < 100 ? 2 : 1) + " " + unit;
};

let data, column, view;
const PAGE = 100;
const state = { sort: "time", descending: false, verdict: "", find: "", page: 0 };
const cell = (row, name) => row[column[name]];
const text = (row, name) => data.texts[cell(row, name)];
const values = (row) => data.parameters.map((own, at) => {
  const value = row[data.columns.length + at];
  return value === null ? "" : own.values[value];
});
const configuration = (row) => values(row).map((value, at) => data.parameters[at].name + "=" + value).join(" ");
const quoted = (word) => /^[\w.,:=+\/@-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
const again = (row) => [data.repro.before, ...configuration(row).split(" ").map(quoted), data.repro.after].join(" ");
const shown = (row) => cell(row, "time") === null ? "" : (cell(row, "is_bound") ? "≥ " : "") + time(cell(row, "time"));

const load = () => {
  data = JSON.parse($("data").textContent);
  column = Object.fromEntries(data.columns.map((name, at) => [name, at]));
  check(data.rows.every((row) => row.length === data.columns.length + data.parameters.length), "a row has too few cells");
};

// The table of all rows.
const HEAD = [["configuration", "configuration"], ["verdict", "verdict"], ["time", "time"], ["origin", "proposed by"],
  ["at_s", "at, s"], ["registers", "registers"], ["spill_bytes", "spilled"], ["compile_ms", "compile, ms"],
  ["message", "what was seen"], ["number", "evaluation"]];
const key = (row, name) => name === "configuration" ? configuration(row)
  : ["verdict", "origin", "message"].includes(name) ? text(row, name) : cell(row, name);
const select = () => {
  const words = state.find.toLowerCase().split(/[\s,]+/).filter(Boolean);
  view = data.rows.filter((row) => {
    if (state.verdict && text(row, "class") !== state.verdict) return false;
    if (!words.length) return true;
    const all = [configuration(row), text(row, "verdict"), text(row, "origin"), text(row, "message"), "#" + cell(row, "number")];
    const joined = all.join(" ").toLowerCase();
    return words.every((word) => joined.includes(word));
  });
  const sign = state.descending ? -1 : 1;
  // A bound is no time: variants that were measured come first.
  const rank = (row) => state.sort !== "time" ? 0 : text(row, "class") === "ok" ? 0 : cell(row, "time") === null ? 2 : 1;
  view.sort((a, b) => {
    const byRank = rank(a) - rank(b);
    if (byRank) return byRank;
    const [x, y] = [key(a, state.sort), key(b, state.sort)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y) || cell(a, "order") - cell(b, "order");
  });
};
const draw = () => {
  const table = make("table");
  table.append(make("caption", "All evaluations"));
  const head = make("tr");
  for (const [name, label] of HEAD) {
    const th = make("th", label, "sort");
    th.scope = "col";
    th.tabIndex = 0;
    if (state.sort === name) th.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    const sort = () => {
      state.descending = state.sort === name && !state.descending;
      Object.assign(state, { sort: name, page: 0 });
      show();
    };
    th.addEventListener("click", sort);
    th.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    head.append(th);
  }
  table.append(make("thead"));
  table.tHead.append(head);
  const body = make("tbody");
  for (const row of view.slice(state.page * PAGE, (state.page + 1) * PAGE)) {
    const tr = make("tr");
    const cells = [["code", configuration(row)], [text(row, "class"), text(row, "verdict")], ["number", shown(row)],
      ["", text(row, "origin")], ["number", cell(row, "at_s")], ["number", cell(row, "registers") ?? ""],
      ["number", cell(row, "spill_bytes") ?? ""], ["number", cell(row, "compile_ms")], ["text", text(row, "message")],
      ["number", cell(row, "number")]];
    for (const [name, value] of cells) tr.append(make("td", value, name));
    body.append(tr);
  }
  table.append(body);
  const scroll = make("div", undefined, "scroll");
  scroll.tabIndex = 0;
  scroll.append(table);
  $("rows").replaceChildren(scroll);
  const pages = Math.max(1, Math.ceil(view.length / PAGE));
  $("count").textContent = view.length === data.rows.length ? view.length + " rows" : view.length + " of " + data.rows.length + " rows";
  $("where").textContent = "page " + (state.page + 1) + " of " + pages;
  $("before").disabled = state.page === 0;
  $("after").disabled = state.page + 1 >= pages;
  $("pages").hidden = pages === 1;
};
const show = () => { select(); draw(); };

const save = (name, kind, content) => {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([content], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const csv = () => {
  // A cell that begins like a formula would be one in a spreadsheet.
  const field = (value) => {
    const plain = String(value ?? "");
    const safe = /^[=+@-]/.test(plain) && Number.isNaN(Number(plain)) ? "'" + plain : plain;
    return /[",\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };
  const texts = ["origin", "class", "verdict", "message"];
  const parameters = data.parameters.map((own) => data.columns.includes(own.name) ? "parameter:" + own.name : own.name);
  const head = [...data.columns, ...parameters];
  const lines = view.map((row) => [...data.columns.map((name) => texts.includes(name) ? text(row, name) : cell(row, name)), ...values(row)]);
  return [head, ...lines].map((line) => line.map(field).join(",")).join("\n") + "\n";
};

const tools = () => {
  const classes = new Map();
  for (const row of data.rows) classes.set(text(row, "class"), (classes.get(text(row, "class")) ?? 0) + 1);
  const filter = $("filter");
  for (const [name, count] of [...classes].sort((a, b) => b[1] - a[1])) {
    const option = make("option", name + " (" + count + ")");
    option.value = name;
    filter.append(option);
  }
  filter.value = classes.has(state.verdict) ? state.verdict : "";
  state.verdict = filter.value;
  $("find").value = state.find;
  filter.addEventListener("change", () => { Object.assign(state, { verdict: filter.value, page: 0 }); show(); });
  $("find").addEventListener("input", () => { Object.assign(state, { find: $("find").value, page: 0 }); show(); });
  $("before").addEventListener("click", () => { state.page -= 1; draw(); });
  $("after").addEventListener("click", () => { state.page += 1; draw(); });
  $("csv").addEventListener("click", () => save(data.study + ".csv", "text/csv", csv()));
  $("json").addEventListener("click", () => save(data.study + ".json", "application/json", JSON.stringify(data)));
  $("tools").hidden = data.rows.length === 0;
};

// What stands under the pointer, and zoom along the x axis.
const scale = (words, length) => {
  const [kind, low, high, up] = [words[0], +words[1], +words[2], words[3] === "1"];
  const share = (value) => kind === "log" ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  const back = (part) => kind === "log" ? low * (high / low) ** part : low + part * (high - low);
  return { at: (value) => length * (up ? 1 - share(value) : share(value)), value: (x) => back(x / length) };
};
const svg = (name, attributes) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
};
const tip = $("tip");
const place = (event, content) => {
  tip.textContent = content;
  tip.hidden = false;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8)) + "px";
  tip.style.top = Math.max(4, event.clientY + height + 24 > innerHeight ? event.clientY - height - 10 : event.clientY + 16) + "px";
};
const described = (row) => {
  const lines = ["evaluation " + cell(row, "number") + " · " + text(row, "verdict") + " · " + shown(row),
    configuration(row), "proposed by " + text(row, "origin")];
  if (cell(row, "expected") !== null) lines.push("expected " + time(cell(row, "expected")));
  if (text(row, "message")) lines.push(text(row, "message"));
  return lines.join("\n");
};
const interactive = (plot) => {
  const marks = plot.querySelector(".marks"), zoom = plot.querySelector(".zoom"), axis = plot.querySelector(".axis.x");
  const width = +marks.getAttribute("width"), height = +marks.getAttribute("height");
  const [xName, yName] = plot.dataset.columns.split(" ");
  const [x, y] = [scale(plot.dataset.x.split(" "), width), scale(plot.dataset.y.split(" "), height)];
  const points = data.rows.filter((row) => cell(row, xName) !== null && cell(row, yName) !== null)
    .map((row) => [x.at(cell(row, xName)), y.at(cell(row, yName)), row]);
  check(points.every(([a, b]) => Number.isFinite(a) && Number.isFinite(b)), "a dot has no place");
  let from = 0, to = width, start = null, near = null;
  const ring = svg("circle", { r: 7, class: "ring", visibility: "hidden" });
  const drag = svg("rect", { y: 0, height, width: 0, class: "select" });
  // Something to hit between the dots.
  marks.prepend(svg("rect", { width, height, fill: "transparent" }));
  marks.append(drag, ring);
  const local = (event) => {
    const box = marks.getScreenCTM();
    return [(event.clientX - box.e) / box.a, (event.clientY - box.f) / box.d];
  };
  const screen = (at) => (at - from) / (to - from) * width;
  const original = axis.innerHTML;
  const reset = make("button", "Whole range", "reset");
  reset.type = "button";
  reset.hidden = true;
  plot.parentNode.after(reset);
  const apply = () => {
    const factor = width / (to - from);
    zoom.setAttribute("transform", "translate(" + -from * factor + " 0) scale(" + factor + " 1)");
    reset.hidden = factor === 1;
    if (factor === 1) { axis.innerHTML = original; return; }
    const [left, top] = [+marks.getAttribute("x"), +marks.getAttribute("y")];
    axis.replaceChildren();
    for (let at = 0; at <= 6; at += 1) {
      const own = from + (to - from) * at / 6, value = x.value(own);
      const label = svg("text", { x: left + screen(own), y: top + height + 16, class: "tick middle" });
      label.textContent = xName === "order" ? Math.round(value) : xName === "expected" ? time(value) : value.toPrecision(3);
      axis.append(label);
    }
  };
  reset.addEventListener("click", () => { [from, to] = [0, width]; apply(); });
  marks.addEventListener("pointerdown", (event) => { start = local(event)[0]; marks.setPointerCapture(event.pointerId); });
  marks.addEventListener("pointermove", (event) => {
    const [px, py] = local(event);
    if (start !== null) {
      drag.setAttribute("x", Math.min(start, px));
      drag.setAttribute("width", Math.abs(px - start));
    }
    near = null;
    let least = 24 * 24;
    for (const point of points) {
      const distance = (screen(point[0]) - px) ** 2 + (point[1] - py) ** 2;
      if (distance < least) [least, near] = [distance, point];
    }
    ring.setAttribute("visibility", near ? "visible" : "hidden");
    if (!near) { tip.hidden = true; return; }
    ring.setAttribute("cx", screen(near[0]));
    ring.setAttribute("cy", near[1]);
    place(event, described(near[2]));
  });
  marks.addEventListener("pointerup", (event) => {
    const end = local(event)[0];
    drag.setAttribute("width", 0);
    if (start !== null && Math.abs(end - start) > 8) {
      const own = (at) => from + Math.max(0, Math.min(width, at)) / width * (to - from);
      [from, to] = [own(Math.min(start, end)), own(Math.max(start, end))];
      apply();
    } else if (near) {
      Object.assign(state, { find: "#" + cell(near[2], "number"), verdict: "", page: 0 });
      $("find").value = state.find;
      $("filter").value = "";
      show();
    }
    start = null;
  });
  marks.addEventListener("dblclick", () => { [from, to] = [0, width]; apply(); });
  marks.addEventListener("pointerleave", () => { ring.setAttribute("visibility", "hidden"); tip.hidden = true; });
};

const copies = () => {
  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = button.previousElementSibling;
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        // A file has no clipboard in every browser: select the line, so that one key copies it.
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
};

const begin = () => {
  load();
  tools();
  show();
  copies();
  document.querySelectorAll(".plot[data-columns]").forEach(interactive);
};

const theme = $("theme");
const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
theme.hidden = false;
theme.textContent = isDark() ? "Light" : "Dark";
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  theme.textContent = isDark() ? "Light" : "Dark";
});

// A live page takes the new content whole; the reader's filter, sort and place stay.
const live = () => {
  const mark = make("span", "live");
  mark.id = "live";
  theme.before(mark);
  let version = "";
  const look = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store", headers: { "If-None-Match": version } });
      mark.textContent = answer.ok || answer.status === 304 ? "live" : "ended";
      if (answer.ok) {
        version = answer.headers.get("ETag");
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        const { scrollX, scrollY } = window;
        const hadFocus = document.activeElement?.id;
        const page = document.importNode(fresh.getElementById("page"), true);
        $("page").replaceWith(page);
        tip.hidden = true;
        begin();
        if (hadFocus && $(hadFocus)) $(hadFocus).focus();
        scrollTo(scrollX, scrollY);
      }
    } catch { mark.textContent = "waiting"; }
    setTimeout(look, 1000);
  };
  look();
};

addEventListener("securitypolicyviolation", (event) => { errors.push("blocked: " + event.violatedDirective); root.dataset.errors = errors.join("; "); });
try {
  begin();
  check(document.querySelectorAll("table").length === document.querySelectorAll("table > thead, table > caption + thead").length, "a table has no head");
  check([...document.querySelectorAll(".plot")].every((own) => own.getAttribute("aria-label")), "a chart has no summary");
  check(!document.querySelector("script[src], link[href], img, iframe, object, embed"), "something is loaded");
  check(performance.getEntriesByType("resource").length === 0, "something was requested");
  if (document.body.dataset.live) live();
} catch (error) {
  errors.push(String(error));
}
if (errors.length) root.dataset.errors = errors.join("; ");
else root.dataset.ok = "1";
})();
