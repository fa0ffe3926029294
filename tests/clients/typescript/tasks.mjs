// The tasks extension for the official TypeScript SDK: the official package for it, with a way past the client,
// which takes no answer for one that is a task.

import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

/** Sends requests over the client's own transport, with ids of their own, and returns the answers as they come. */
function passing(client) {
  const { transport } = client;
  const deliver = transport.onmessage;
  const waiting = new Map();
  let count = 0;
  transport.onmessage = (message, extra) => {
    const settle = waiting.get(message.id);
    if (settle === undefined || message.method !== undefined) {
      deliver(message, extra);
      return;
    }
    waiting.delete(message.id);
    const { result, error } = message;
    settle(error === undefined ? { kind: "result", result } : { kind: "error", error });
  };
  return (request, { signal, context } = {}) =>
    new Promise((resolve, reject) => {
      count += 1;
      const id = `task:${count}`;
      waiting.set(id, resolve);
      const message = { jsonrpc: "2.0", id, ...request };
      const options = { headers: context?.headers, requestSignal: signal };
      transport.send(message, options).catch((error) => {
        waiting.delete(id);
        reject(error);
      });
    });
}

/** Makes a session that follows tasks, and has what they ask answered. */
export function following(client, clientInfo, clientCapabilities, onInputRequest) {
  const protocolVersion = client.getNegotiatedProtocolVersion();
  return createTaskSessionFromClient(client, {
    endpointId: "router",
    rawDispatch: passing(client),
    v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
    onInputRequest,
    // What goes wrong behind the scenes counts, too.
    onError: (error) => client.onerror(error),
  });
}
