// An HTTP/2 server of Node's own; the path says what it does besides sending the body back.
import { createSecureServer, constants } from "node:http2";
import { readFileSync } from "node:fs";

const [pem] = process.argv.slice(2);
const server = createSecureServer({
  key: readFileSync(pem),
  cert: readFileSync(pem),
  settings: { maxConcurrentStreams: 10, initialWindowSize: 3000, maxFrameSize: 20000, headerTableSize: 100 },
});

server.on("stream", (stream, headers) => {
  const parts = [];
  stream.on("data", (part) => parts.push(part));
  stream.on("error", () => {});
  stream.on("end", () => {
    const body = Buffer.concat(parts);
    const path = headers[":path"];
    if (path === "/hang") return;
    if (path === "/reset") return stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    if (path === "/refuse") return stream.close(constants.NGHTTP2_REFUSED_STREAM);
    if (path === "/goaway") stream.session.goaway(constants.NGHTTP2_NO_ERROR);
    if (path === "/leave") return stream.session.destroy();
    if (path === "/interim") stream.additionalHeaders({ ":status": 103, link: "</a>" });
    if (path === "/ping") stream.session.ping(() => {});
    stream.respond(
      { ":status": 200, "x-path": path, "content-length": body.length, authorization: headers.authorization },
      { waitForTrailers: path === "/trailers" },
    );
    stream.on("wantTrailers", () => stream.sendTrailers({ "x-trailer": "1" }));
    stream.end(body);
  });
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
