// Decodes FlatBuffers bodies by the code that flatc and tsc made: standard input has a JSON array of
// {module, table, body}, standard output gets an array with the fields of each body.
import { ByteBuffer } from 'flatbuffers';

let input = '';
for await (const chunk of process.stdin) input += chunk;

const decoded = [];
for (const { module, table, body } of JSON.parse(input)) {
  const generated = (await import(module))[table];
  const row = generated[`getRootAs${table}`](new ByteBuffer(Buffer.from(body, 'base64')));
  const fields = Object.getOwnPropertyNames(generated.prototype).filter(
    (name) => name !== 'constructor' && !name.startsWith('__'),
  );
  decoded.push(Object.fromEntries(fields.map((name) => [name, row[name]()])));
}
const number = (_, value) => (typeof value === 'bigint' ? Number(value) : value);
process.stdout.write(JSON.stringify(decoded, number));
