// The page of the lock service. It gets all queues once, and then their changes. Times are milliseconds of the service's own
// clock: an event says what time it is there. All text is set as text, never as HTML.

const $ = (id) => document.getElementById(id);
const first = JSON.parse($("first").textContent);

/** h makes an element. Texts and elements become its children; null is left out. */
function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== null));
  return e;
}

// What the service said.
const queues = new Map(); // by name
let viewer = {};
let leftOut = 0;
let failed = "";
let offset = 0; // of the service's clock from this page's
let heard = -Infinity; // when the last event came
let read = 0; // when the service last read the store, by its clock
let lost = false; // the stream
let opened = 0; // when the stream was opened

const now = () => performance.now() + offset;

// Words.
const number = (n) => n.toLocaleString("en-US");
const count = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 120) return `${s} s`;
  if (s < 120 * 60) return `${Math.floor(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d`;
}

/** who says who a claim's client is, and as whom the service knows it. The text of another program stands for itself. */
function who(c) {
  const name = (c.owner || c.program || c.value || "somebody unknown") + (c.principal ? ` as ${c.principal}` : "");
  return c.host ? `${name} on ${c.host}` : name;
}

const waiting = (q) => q.claims.filter((c) => c.state === "waits");
const holding = (q) => q.claims.filter((c) => c.state !== "waits");
const oldest = (q) => (q.waits ? Math.min(...waiting(q).map((c) => c.since)) : Infinity);
const mayBreak = (name) => (viewer.breaks ?? []).some((prefix) => name.startsWith(prefix));

// What changes with the time is set anew every second. A text that is the same is not touched.
const clocks = new Map(); // by element
function clock(e, f) {
  clocks.set(e, f);
  f(e);
  return e;
}
const since = (at, say = span) => clock(h("span", {}), (e) => setText(e, say(now() - at)));
function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}
function forget(e) {
  clocks.delete(e);
  for (const child of e.children) forget(child);
}

/** lease shows what is left of the lease that ends first; as a bar, if its whole length is known. */
function lease(...claims) {
  const bar = h("i");
  const text = h("span");
  const e = h("div", { class: "lease" }, h("div", { class: "bar", "aria-hidden": "true" }, bar), h("span", { class: "hidden" }, "left of the lease: "), text);
  return clock(e, () => {
    const c = claims.reduce((a, b) => (b.until && !(a.until <= b.until) ? b : a));
    const left = c.until - now();
    e.classList.toggle("plain", !(c.ttl && c.until && c.state === "holds"));
    bar.style.transform = `scaleX(${Math.min(1, Math.max(0, left / c.ttl)) || 0})`;
    if (!c.until) setText(text, "");
    else if (c.state === "kept") setText(text, `kept ${span(left)}`);
    else setText(text, left > 0 ? span(left) : "over");
    e.title = c.until ? "left of the lease" : "the store does not report leases";
  });
}

function boxes(q) {
  if (!q.of) return null;
  const text = `${number(q.taken ?? 0)} of ${number(q.of)}`;
  if (q.of > 24) return h("span", {}, `${text} permits`);
  const all = h("span", { class: "boxes", role: "img", "aria-label": `${text} permits taken`, title: `${text} permits taken` });
  for (let i = 0; i < q.of; i++) all.append(h("i", { class: i < (q.taken ?? 0) ? "taken" : null }));
  return all;
}

// The list.
const rows = new Map(); // by name
const step = 300; // rows that are added when the end comes into sight
let shown = step;
let order = [];

function row(q) {
  let r = rows.get(q.name);
  if (!r) {
    r = h("li", { class: "row" }, h("a", { href: "#" + encodeURIComponent(q.name) }, q.name));
    rows.set(q.name, r);
  }
  while (r.children.length > 1) {
    forget(r.lastChild);
    r.lastChild.remove();
  }
  const [holder, ...others] = holding(q);
  const line = waiting(q);
  const more = q.holds - 1;
  const kind = [boxes(q), holder?.shared ? h("span", { class: "tag" }, count(q.holds, "reader", "readers")) : null,
    holder?.state === "kept" ? h("span", { class: "tag" }, "kept") : null];
  r.append(h("div", { class: "kind" }, ...kind.filter((k) => k !== null)));
  if (holder) {
    r.append(
      h("div", { class: "holder" },
        h("div", { class: "cut", title: who(holder) }, h("span", { class: "hidden" }, "held by "), who(holder) + (more > 0 ? ` +${number(more)}` : "")),
        h("div", { class: "quiet cut", title: holder.reason ?? "" }, since(holder.held ?? holder.since, (d) => `for ${span(d)}`),
          holder.reason ? ` · ${holder.reason}` : "")),
      lease(holder, ...others));
  } else {
    r.append(h("div", { class: "holder quiet" }, "nobody holds it"), h("div", { class: "lease plain" }));
  }
  const names = line.slice(0, 3).map(who).join(", ") + (q.waits > 3 ? ` +${number(q.waits - 3)}` : "");
  r.append(q.waits === 0 ? h("div", { class: "line" }) :
    h("div", { class: "line" },
      h("div", {}, h("b", {}, number(q.waits)), q.waits === 1 ? " waits " : " wait ", h("span", { class: "quiet" }, since(oldest(q), (d) => `${q.waits === 1 ? "for" : "for up to"} ${span(d)}`))),
      h("div", { class: "quiet cut", title: names }, names)));
  return r;
}

/** words are what a search looks in. */
const words = (q) => [q.name, ...q.claims.flatMap((c) => [c.owner, c.principal, c.program, c.host, c.reason, c.value])].join("\n").toLowerCase();

const orders = {
  wait: (a, b) => a.oldest - b.oldest || (a.name < b.name ? -1 : 1),
  waits: (a, b) => b.waits - a.waits || (a.name < b.name ? -1 : 1),
  name: (a, b) => (a.name < b.name ? -1 : 1),
};

/** arrange puts the rows in order. While somebody points at the list or is in it, rows only come and go: nothing jumps. */
function arrange(force) {
  const sought = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...queues.values()].filter((q) => sought.every((w) => q.words.includes(w)));
  for (const q of found) q.oldest = oldest(q);
  const by = orders[$("sort").value];
  const busy = !force && ($("box").matches(":hover") || $("list").contains(document.activeElement));
  if (busy) {
    const place = new Map(order.map((name, i) => [name, i]));
    found.sort((a, b) => (place.get(a.name) ?? Infinity) - (place.get(b.name) ?? Infinity) || by(a, b));
  } else {
    found.sort(by);
  }
  order = found.map((q) => q.name);
  const list = $("list");
  let at = list.firstElementChild;
  for (const name of order.slice(0, shown)) {
    const r = rows.get(name) ?? row(queues.get(name));
    if (at === r) at = at.nextElementSibling;
    else list.insertBefore(r, at);
  }
  while (at) {
    const next = at.nextElementSibling;
    at.remove();
    at = next;
  }
  for (const [name, r] of rows) {
    if (!queues.has(name)) {
      forget(r);
      rows.delete(name);
    }
  }
  if (order.length > shown) { // ask anew whether the end is in sight: the answer may be the same as before
    sight.unobserve($("more"));
    sight.observe($("more"));
  }
  setText($("found"), sought.length ? `${count(found.length, "name", "names")} of ${number(queues.size)}` : "");
  const end = [];
  if (order.length > shown) end.push(`${count(order.length - shown, "further name", "further names")}: scroll on.`);
  else if (!queues.size) end.push(viewer.blind ? "Your token may not read any name: it needs the right read." : heard > 0 ? "Nobody holds a lock, and nobody waits." : "");
  else if (!found.length) end.push("No name, holder, host or reason has these words.");
  if (leftOut) end.push(`The list is cut off: ${count(leftOut, "further name is", "further names are")} in the store.`);
  setText($("more"), end.join(" "));
  totals();
}

function totals() {
  let held = 0, waits = 0, longest = Infinity;
  for (const q of queues.values()) {
    if (q.holds) held++;
    waits += q.waits;
    longest = Math.min(longest, oldest(q));
  }
  const e = $("totals");
  forget(e);
  e.replaceChildren(h("b", {}, number(queues.size)), leftOut ? ` of ${number(queues.size + leftOut)}` : "", queues.size === 1 ? " name · " : " names · ", h("b", {}, number(held)), " held · ", h("b", {}, number(waits)),
    waits === 1 ? " waits" : " wait", ...(waits ? [" · longest ", since(longest)] : []));
}

const sight = new IntersectionObserver((entries) => {
  if (entries.at(-1).isIntersecting && order.length > shown) {
    shown += step;
    arrange(false);
  }
}, { rootMargin: "600px" });

// One name.
let chosen = null;
let recent = { ends: [] };

function choose() {
  const name = location.hash ? decodeURIComponent(location.hash.slice(1)) : null;
  const changed = name !== chosen;
  if (changed) {
    mark(chosen, false);
    chosen = name;
    recent = { ends: [] };
  }
  $("main").classList.toggle("opened", name !== null);
  document.title = name === null ? "stile" : `${name} · stile`;
  show();
  if (changed && name !== null) {
    ask();
    $("one").scrollTop = 0;
    if (matchMedia("(max-width: 1199px)").matches) scrollTo(0, 0);
    $("one").focus({ preventScroll: true }); // Tab goes on in it, not in the rest of the list
  }
}

/** ask gets the recent holds of the chosen name. */
async function ask() {
  const name = chosen;
  const answer = await fetch(`/page/recent?name=${encodeURIComponent(name)}`).catch(() => null);
  if (!answer?.ok || name !== chosen) return;
  recent = await answer.json();
  show();
}

function mark(name, on) {
  const r = rows.get(name);
  r?.classList.toggle("chosen", on);
  if (on) r?.firstChild.setAttribute("aria-current", "true");
  else r?.firstChild.removeAttribute("aria-current");
}

function show() {
  const one = $("one");
  const focused = one.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  forget(one);
  if (chosen === null) {
    one.replaceChildren(h("p", { class: "empty" }, "Choose a name to see its queue."));
    return;
  }
  mark(chosen, true);
  const q = queues.get(chosen) ?? { name: chosen, holds: 0, waits: 0, claims: [] };
  const state = [q.holds ? count(q.holds, "holds", "hold") : "nobody holds it", q.waits ? count(q.waits, "waits", "wait") : "nobody waits"];
  if (q.of) state.unshift(`${number(q.taken ?? 0)} of ${number(q.of)} permits taken`);
  one.replaceChildren(
    h("a", { class: "back", href: "#", "data-key": "back", onclick: close }, "← all names"),
    h("h2", { id: "title" }, chosen),
    h("p", { class: "quiet" }, state.join(" · "), " ", q.of && q.of <= 24 ? boxes(q) : null),
    ...(q.claims.length ? [picture(q)] : []), ...chains(q), ...past());
  if (focused) (one.querySelector(`[data-key="${CSS.escape(focused)}"]`) ?? one).focus({ preventScroll: true });
}

/** picture is the queue: those who hold, the gate, and those who wait, by their places. */
function picture(q) {
  const front = holding(q), back = waiting(q);
  const rest = (n, what) => (n > 0 ? [h("li", { class: "quiet" }, h("span", { class: "mark", "aria-hidden": true }, "…"), `${number(n)} more ${what}`)] : []);
  return h("ol", { class: "queue", "aria-label": "Queue" },
    ...front.map((c) => member(q, c, "")), ...rest(q.holds - front.length, "hold"),
    ...(q.waits ? [h("li", { class: "gate" }, q.waits === 1 ? "waits" : "wait, in this order")] : []),
    ...back.map((c, i) => member(q, c, String(i + 1))), ...rest(q.waits - back.length, "wait"));
}

function member(q, c, place) {
  const facts = [];
  if (c.permits) facts.push(count(c.permits, "permit", "permits"));
  if (c.shared) facts.push("reader");
  if (c.program && c.owner) facts.push(c.program);
  if (c.pid) facts.push(`pid ${c.pid}`);
  if (c.value && (c.owner || c.program)) facts.push(c.value);
  const times = c.state === "waits" ? null :
    h("span", {}, c.held ? since(c.held, (d) => `holds for ${span(d)}`) : since(c.since, (d) => `entered ${span(d)} ago`), facts.length ? " · " : "");
  const has = q.within?.[c.id] ?? [];
  const links = has.flatMap(([name], i) => [i ? ", " : "", h("a", { class: "link", href: "#" + encodeURIComponent(name), "data-key": `has ${c.id} ${name}` }, name)]);
  return h("li", { class: c.state },
    h("span", { class: "mark" + (place.length > 2 ? " long" : ""), "aria-hidden": !place || null }, place),
    h("div", { class: "who" }, h("span", { class: "hidden" }, { holds: "holds: ", kept: "kept: ", waits: "waits: " }[c.state]), who(c),
      c.state === "kept" ? h("span", { class: "quiet" }, " released, and kept") : null),
    c.state === "waits" ? h("div", { class: "time" }, since(c.since)) : lease(c),
    c.reason ? h("div", { class: "why" }, c.reason) : null,
    times || facts.length ? h("div", { class: c.reason ? "quiet" : "quiet why" }, times, facts.join(" · ")) : null,
    c.token ? h("div", { class: "quiet" }, `token ${c.token}`) : null,
    has.length ? h("div", { class: "quiet" }, "has ", ...links, " meanwhile") : null,
    c.id && mayBreak(q.name) ? h("button", { "data-key": `break ${c.id}`, "aria-label": `Break the claim of ${who(c)}`, onclick: () => askBreak(q.name, c) }, "Break…") : null);
}

/** chains say what the holders of a name wait for themselves, as far as claims say what their clients have. */
function chains(q) {
  const waits = new Map(); // by a held claim: the claim with which its client waits
  for (const other of queues.values()) {
    for (const [id, has] of Object.entries(other.within ?? {})) {
      const c = other.claims.find((c) => c.id === id);
      for (const [name, ticket] of has) waits.set(`${ticket} ${name}`, { name: other.name, c });
    }
  }
  const lines = [];
  for (const c of holding(q)) {
    let at = waits.get(`${c.id} ${q.name}`);
    const seen = new Set([q.name]);
    while (at && lines.length < 50) {
      const round = seen.has(at.name);
      lines.push(h("li", {}, `${who(at.c)} waits for `, h("a", { class: "link", href: "#" + encodeURIComponent(at.name), "data-key": `chain ${at.name}` }, at.name),
        round ? h("span", { class: "circle" }, ": a circle, in which everybody waits for the next") : null));
      if (round) break;
      seen.add(at.name);
      at = holding(queues.get(at.name)).map((b) => waits.get(`${b.id} ${at.name}`)).find(Boolean);
    }
  }
  return lines.length ? [h("h3", {}, "The holder waits too"), h("ul", { class: "chain" }, ...lines)] : [];
}

/** past is a table of the holds that ended. */
function past() {
  if (!recent.ends.length) return [];
  const how = (e) => {
    if (e.how === "released") return "released";
    if (e.how === "lapsed") return "lost: its lease ran out";
    return `broken${e.broken.by ? ` by ${e.broken.by}` : ""}: ${e.broken.reason}`;
  };
  const ended = (e) => since(e.gone, (d) => (e.gone - e.seen > 5000 ? `${span(d)} to ${span(d + e.gone - e.seen)} ago` : `${span(d)} ago`));
  return [h("h3", {}, "Ended holds that this replica saw"),
    h("table", { class: "past" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "holder"), h("th", { scope: "col" }, "end"), h("th", { scope: "col", class: "num" }, "held"), h("th", { scope: "col", class: "num" }, "ended"))),
      h("tbody", {}, ...recent.ends.map((e) => h("tr", {}, h("td", { title: e.token ? `token ${e.token}` : null }, who(e)), h("td", {}, how(e)),
        h("td", { class: "num" }, e.held ? span(e.gone - e.held) : ""), h("td", { class: "num" }, ended(e))))))];
}

function close(event) {
  event?.preventDefault();
  const name = chosen;
  history.pushState(null, "", location.pathname);
  choose();
  rows.get(name)?.firstChild.focus();
}

// Breaking a claim.
let broken = null;
function askBreak(name, c) {
  broken = { name, id: c.id };
  $("breakwhat").textContent = `${who(c)} ${c.state === "waits" ? "waits for" : "holds"} ${name}.`;
  $("breakfailed").textContent = "";
  $("reason").value = "";
  $("break").showModal();
}
$("cancel").addEventListener("click", () => $("break").close());
$("break").addEventListener("close", () => { // the button that opened it may be gone
  if (!$("one").contains(document.activeElement)) $("one").focus({ preventScroll: true });
});
$("break").querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const failure = await post("break", { ...broken, reason: $("reason").value });
  $("breakfailed").textContent = failure;
  if (!failure) $("break").close();
});

/** post sends a request, and returns what went wrong, or "". */
async function post(path, body) {
  try {
    const answer = await fetch(`/page/${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (answer.ok) return "";
    return (await answer.json()).message;
  } catch {
    return "The service did not answer, so the outcome is unknown.";
  }
}

// News.
function take(e) {
  offset = e.now - performance.now();
  heard = performance.now();
  read = e.at;
  failed = e.failed ?? "";
  leftOut = e.left_out ?? 0;
  const rights = JSON.stringify(viewer) !== JSON.stringify(e.viewer);
  viewer = e.viewer;
  let mine = rights;
  if (e.whole) {
    const there = new Set(e.queues?.map((c) => c.queue.name));
    for (const name of queues.keys()) {
      if (there.has(name)) continue;
      queues.delete(name);
      if (name === chosen) ask();
    }
    mine = true;
  }
  for (const { queue, within } of e.queues ?? []) {
    const before = queues.get(queue.name);
    const q = { ...queue, within, words: words(queue) };
    queues.set(queue.name, q);
    if (rows.has(queue.name)) row(q);
    mine ||= queue.name === chosen || Boolean(within ?? before?.within); // a part of chains
    if (queue.name === chosen && before?.ended !== queue.ended) ask();
  }
  for (const { name, until } of e.leases ?? []) {
    until.forEach((at, i) => (queues.get(name).claims[i].until = at || undefined));
  }
  for (const name of e.gone ?? []) {
    mine ||= name === chosen || Boolean(queues.get(name)?.within);
    queues.delete(name);
    if (name === chosen) ask();
  }
  arrange(e.whole);
  if (mine) show();
  tick();
}

function tick() {
  const silent = performance.now() - Math.max(heard, opened);
  const s = $("status");
  const stale = lost || silent > 5000 || failed !== "";
  s.className = stale ? "broken" : heard > 0 ? "live" : "";
  document.body.classList.toggle("stale", stale && queues.size > 0);
  let state = heard > 0 ? "live" : "reading the store";
  if (lost) state = "Cut off from the service";
  else if (failed) state = "The store cannot be read";
  else if (stale) state = "The store does not answer";
  setText($("state"), state);
  setText($("age"), stale && read ? `; shown as of ${span(now() - read)} ago` : "");
  s.title = failed;
  for (const [e, f] of clocks) f(e);
}

let stream = null;
function connect() {
  if (stream || document.hidden) return;
  opened = performance.now();
  stream = new EventSource("/page/events");
  stream.onmessage = (m) => {
    lost = false;
    take(JSON.parse(m.data));
  };
  stream.addEventListener("end", (m) => {
    if (JSON.parse(m.data).code === "unauthenticated") location.reload();
  });
  stream.onerror = async () => {
    lost = true;
    tick();
    if (stream?.readyState !== EventSource.CLOSED) return; // the browser connects again
    stream = null;
    const answer = await fetch("/page/recent?name=").catch(() => null);
    if (answer?.status === 401) location.reload();
    else setTimeout(connect, 2000);
  };
}

// A page that nobody sees asks for nothing.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return connect();
  stream?.close();
  stream = null;
});

function start() {
  $("main").hidden = false;
  $("store").textContent = first.store ?? "";
  if (first.event) {
    $("logout").hidden = !first.event.viewer.name;
    $("logout").title = first.event.viewer.name ?? "";
    take(first.event);
  } else {
    tick();
  }
  choose();
  connect();
  setInterval(tick, 1000);
  addEventListener("hashchange", choose);
  addEventListener("popstate", choose);
  for (const id of ["search", "sort"]) {
    $(id).addEventListener("input", () => {
      shown = step;
      arrange(true);
    });
  }
  $("box").addEventListener("pointerleave", () => arrange(false));
  $("logout").addEventListener("click", async () => {
    await post("logout", {});
    location.reload();
  });
  addEventListener("keydown", keys);
}

/** keys: / searches, arrows move between names, Escape goes back. */
function keys(event) {
  if ($("break").open || event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = event.target.matches("input, select");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape" && chosen !== null && !(typing && event.target.value)) {
    close();
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !event.target.matches("select")) {
    const here = document.activeElement.closest?.(".row");
    const next = here ? (event.key === "ArrowDown" ? here.nextElementSibling : here.previousElementSibling) : event.target === $("search") ? $("list").firstElementChild : null;
    if (!next) return;
    event.preventDefault();
    next.firstChild.focus();
  }
}

function login() {
  if (first.foreign) return location.replace("/" + location.hash); // now with the cookie, if there is one
  $("login").hidden = false;
  $("token").focus();
  $("status").hidden = true;
  $("login").addEventListener("submit", async (event) => {
    event.preventDefault();
    const failure = await post("login", { token: $("token").value });
    $("refused").textContent = failure && "This token is not valid here, or it cannot be checked now.";
    if (!failure) location.reload();
  });
}

if (first.login) login();
else start();
