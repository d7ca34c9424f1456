// Does what standard input asks for, one job after the other, with Expo's own SDK.

import { Expo } from "expo-server-sdk";
import { text } from "node:stream/consumers";

const jobs = {
  async send(expo, { messages }) {
    const chunks = expo.chunkPushNotifications(messages);
    const tickets = await Promise.all(chunks.map((chunk) => expo.sendPushNotificationsAsync(chunk)));
    return { chunks: chunks.map((chunk) => chunk.length), tickets: tickets.flat() };
  },

  async receipts(expo, { ids }) {
    const chunks = expo.chunkPushNotificationReceiptIds(ids);
    const receipts = await Promise.all(
      chunks.map((chunk) => expo.getPushNotificationReceiptsAsync(chunk)),
    );
    return { chunks: chunks.map((chunk) => chunk.length), receipts: Object.assign({}, ...receipts) };
  },
};

function told({ message, code, statusCode, details }) {
  return { error: { message, code, statusCode, details } };
}

const results = [];
for (const { job, accessToken, ...order } of JSON.parse(await text(process.stdin))) {
  const expo = new Expo({ accessToken, retryMinTimeout: 1 });
  results.push(await jobs[job](expo, order).catch(told));
}
process.stdout.write(JSON.stringify(results));
