// Reads one FlatBuffers table: strings and 64-bit integers, which is all that notification.fbs has.
// An app would use the code that `flatc --ts` generates, with the npm package `flatbuffers`.

const FIRST_SLOT = 4;
const text = new TextDecoder("utf-8", { fatal: true });

/** Return the fields of a body by name; `fields` are [name, type] in the order of the schema. */
export function readTable(bytes, fields) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const table = view.getUint32(0, true);
  const vtable = table - view.getInt32(table, true);
  const size = view.getUint16(vtable, true);
  return Object.fromEntries(fields.map(([name, type], index) => {
    const slot = FIRST_SLOT + 2 * index;
    const offset = slot < size ? view.getUint16(vtable + slot, true) : 0;
    return [name, offset ? readValue(view, table + offset, type) : defaultOf(type)];
  }));
}

function readValue(view, at, type) {
  if (type === "int64") return view.getBigInt64(at, true);
  const start = at + view.getUint32(at, true);
  return text.decode(new Uint8Array(view.buffer, view.byteOffset + start + 4, view.getUint32(start, true)));
}

function defaultOf(type) {
  return type === "int64" ? 0n : null;
}

/** Return the bytes of a base64 text. */
export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
