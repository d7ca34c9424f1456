'use strict';

// Loaded with `node --require`: sends the connections meant for Google to the sandbox, and changes nothing else.
// The SDK has no setting for its address, and its own code stays as published.

const tls = require('node:tls');

const sandbox = new URL(process.env.BENCH_FCM_URL);
const google = new Set(['fcm.googleapis.com', 'oauth2.googleapis.com', 'www.googleapis.com', 'accounts.google.com']);
const connect = tls.connect;

tls.connect = function redirected(options, ...rest) {
  if (typeof options === 'object' && google.has(options.host)) {
    const address = { host: sandbox.hostname, port: Number(sandbox.port), servername: 'localhost' };
    return connect.call(this, { ...options, ...address }, ...rest);
  }
  return connect.call(this, options, ...rest);
};
