// Connects the stock client of SignalR as the first argument, a JSON object, says: {url, token, options?, retries?, resume?}.
// Standard input has commands, a JSON object a line: {token}, {invoke} or {stop}. Standard output gets what happens, likewise.
import { createInterface } from 'node:readline';
import signalR from '@microsoft/signalr';

const given = JSON.parse(process.argv[2]);
let { token } = given;
let last = given.last ?? '';

const report = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
const address = () => (given.resume ? `${given.url}?last_event_id=${last}` : given.url);

class Broken {
  constructor() {
    setTimeout(() => this.onclose({}), 0);
  }
}

const options = { accessTokenFactory: () => token, ...given.options };
if (given.broken_websockets) options.WebSocket = Broken;
const connection = new signalR.HubConnectionBuilder()
  .withUrl(address(), options)
  .withAutomaticReconnect(given.retries ?? [])
  .configureLogging(signalR.LogLevel.None)
  .build();
if (given.ping_ms) connection.keepAliveIntervalInMilliseconds = given.ping_ms;

const transport = () => connection.connection.transport?.constructor.name;
connection.on('notify', (event) => {
  last = event.id;
  report({ notify: event });
});
connection.on('position', (id) => {
  last = id;
  report({ position: id });
});
connection.on('reset', () => report({ reset: true }));
connection.onreconnecting((error) => {
  connection.baseUrl = address();
  report({ reconnecting: error?.message ?? null });
});
connection.onreconnected(() => report({ reconnected: transport() }));
connection.onclose((error) => {
  report({ closed: error?.message ?? null });
  process.exit();
});

createInterface({ input: process.stdin }).on('line', async (line) => {
  const command = JSON.parse(line);
  if (command.token) token = command.token;
  if (command.invoke) {
    connection.invoke(command.invoke).then(
      (result) => report({ result: result ?? null }),
      (error) => report({ error: error.message }),
    );
  }
  if (command.stop) await connection.stop();
});

try {
  await connection.start();
  report({ connected: transport() });
} catch (error) {
  report({ failed: error.message });
  process.exit();
}
