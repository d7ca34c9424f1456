'use strict';

// One BullMQ worker: `node worker.js <concurrency>` sends one message per job with firebase-admin.

const { Worker } = require('bullmq');
const { cert, initializeApp } = require('firebase-admin/app');
const { getMessaging } = require('firebase-admin/messaging');

initializeApp({ credential: cert(process.env.BENCH_CREDENTIALS) });
const messaging = getMessaging();

const worker = new Worker(
  'send',
  async (job) => {
    const { number } = job.data;
    await messaging.send({
      token: `bench-${number}`,
      notification: { title: 'A new customer', body: `Customer ${number} has signed up.` },
      data: { type: 'new_customer', delivery_id: String(number) },
    });
  },
  {
    connection: { host: '127.0.0.1', port: Number(process.env.BENCH_REDIS_PORT) },
    concurrency: Number(process.argv[2]),
    // Keep no finished jobs: nothing reads them, and keeping them costs memory and time.
    removeOnComplete: { count: 0 },
  },
);

worker.on('failed', (job, error) => {
  console.error(`job ${job?.id} failed:`, error);
});
worker.on('error', (error) => {
  console.error(error);
});
process.on('SIGTERM', () => {
  worker.close().then(() => process.exit(0));
});
