// A client of node-redlock's locks that is told on its standard input what to do, one line each: lock NAME, try NAME,
// unlock, exit. It answers held, busy, free, or error and a text.
//
// Arguments: the servers, as host:port with commas between; the lease in milliseconds. It renews every third of it.
"use strict";

const readline = require("node:readline");
const { Redis } = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const servers = process.argv[2].split(",").map((s) => new Redis(Number(s.split(":")[1]), s.split(":")[0]));
const lease = Number(process.argv[3]);
const locks = new Redlock(servers, { retryDelay: 50, retryJitter: 25 });
locks.on("error", () => {}); // each is told again by the call that it ends, if it ends one

let held;
let renewal;
let renewing = Promise.resolve();

async function take(name, retryCount) {
  held = await locks.acquire([name], lease, { retryCount });
  renewal = setInterval(() => {
    renewing = renewing
      .then(async () => { held = await held.extend(lease); })
      .catch(() => clearInterval(renewal));
  }, lease / 3);
}

async function release() {
  clearInterval(renewal);
  await renewing;
  await held.release();
}

async function answer(verb, name) {
  switch (verb) {
    case "lock":
      await take(name, -1);
      return "held -";
    case "try":
      try {
        await take(name, 0);
      } catch (e) {
        if (e instanceof ExecutionError) return "busy";
        throw e;
      }
      return "held -";
    case "unlock":
      await release();
      return "free";
  }
  return "error unknown request " + verb;
}

async function main() {
  await Promise.all(servers.map((s) => s.ping()));
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const end = line.indexOf(" ");
    const [verb, name] = end < 0 ? [line] : [line.slice(0, end), line.slice(end + 1)];
    if (verb === "exit") break;
    try {
      console.log(await answer(verb, name));
    } catch (e) {
      console.log("error " + String(e).replaceAll("\n", " "));
    }
  }
  process.exit();
}

main();
