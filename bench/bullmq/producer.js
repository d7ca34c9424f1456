'use strict';

// Reads a batch a line, `{"serial": 1, "count": 500}`, adds one job per message with `addBulk`, and answers `ok`.

const readline = require('node:readline');
const { Queue } = require('bullmq');

const CHUNK = 500;
const queue = new Queue('send', {
  connection: { host: '127.0.0.1', port: Number(process.env.BENCH_REDIS_PORT) },
});

async function add({ count }) {
  for (let start = 0; start < count; start += CHUNK) {
    const size = Math.min(CHUNK, count - start);
    await queue.addBulk(Array.from({ length: size }, (_, i) => ({ name: 'send', data: { number: start + i } })));
  }
}

async function main() {
  await queue.waitUntilReady();
  console.log('ok');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await add(JSON.parse(line));
    console.log('ok');
  }
  await queue.close();
}

main();
