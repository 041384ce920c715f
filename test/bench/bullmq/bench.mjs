// Runs one lane of the benchmark with BullMQ and prints its figures as JSON (see meter.go).
//
//   node bench.mjs host:port enqueue goroutines|batch|… number tasks
//   node bench.mjs host:port process concurrency number tasks
//   node bench.mjs host:port process rate number tasks        at most so many starts a second

import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const [addr, kind, what, number, tasks] = process.argv.slice(2);
const [host, port] = addr.split(":");
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const total = Number(tasks);
const width = Number(number);
const data = { payload: "x".repeat(86) }; // 100 bytes as JSON
const options = { removeOnComplete: true };

const look = new Redis(connection);
const queue = new Queue("default", { connection });

async function read() {
  const cpu = await look.info("cpu");
  const seconds = (name) => {
    const found = cpu.match(new RegExp(`^${name}_main_thread:(.*)$`, "m")) ?? cpu.match(new RegExp(`^${name}:(.*)$`, "m"));
    return Number(found[1]);
  };
  let commands = 0;
  for (const [, name, calls] of (await look.info("commandstats")).matchAll(/^cmdstat_(.*?):calls=(\d+)/gm)) {
    if (name !== "info") {
      commands += Number(calls);
    }
  }
  const own = process.cpuUsage();
  return { redis: seconds("used_cpu_user") + seconds("used_cpu_sys"), commands, own: (own.user + own.system) / 1e6 };
}

const job = () => ({ name: "bench", data, opts: options });

async function addMany(n, batch) {
  for (let left = n; left > 0; left -= batch) {
    await queue.addBulk(Array.from({ length: Math.min(batch, left) }, job));
  }
}

async function enqueue() {
  if (what === "batch") {
    return addMany(total, width);
  }
  let next = 0;
  const loop = async () => {
    while (next++ < total) {
      await queue.add("bench", data, options);
    }
  };
  await Promise.all(Array.from({ length: width }, loop));
}

// work resolves to the time at which the last task was handled, once all are settled.
function work() {
  return new Promise((resolve, reject) => {
    let handled = 0;
    let settled = 0;
    let end = 0;
    const worker = new Worker(
      "default",
      async () => {
        if (++handled === total) {
          end = performance.now();
        }
      },
      what === "rate" ? { connection, concurrency: 100, limiter: { max: width, duration: 1000 } } : { connection, concurrency: width },
    );
    worker.on("completed", () => {
      if (++settled === total) {
        resolve(end);
      }
    });
    worker.on("failed", (_, err) => reject(err));
    worker.on("error", reject);
  });
}

await queue.waitUntilReady();
if (kind === "process") {
  await addMany(total, 1000);
}
const before = await read();
const start = performance.now();
let end;
if (kind === "process") {
  end = await work();
} else {
  await enqueue();
  end = performance.now();
}
const after = await read();
const figures = {
  tasks: total,
  seconds: (end - start) / 1000,
  redis_cpu_seconds: after.redis - before.redis,
  own_cpu_seconds: after.own - before.own,
  redis_commands: after.commands - before.commands,
};
process.stdout.write(JSON.stringify(figures) + "\n", () => process.exit(0));
