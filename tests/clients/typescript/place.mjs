// Where the router is and how it is spoken to, what its record says, and who answers its questions.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { openSync } from "node:fs";
import { promisify } from "node:util";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import * as v1 from "@modelcontextprotocol/sdk/client/index.js";
import * as v1stdio from "@modelcontextprotocol/sdk/client/stdio.js";
import * as v1http from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as schemas from "@modelcontextprotocol/sdk/types.js";

export const run = promisify(execFile);
export const INFO = { name: "judge", version: "1.0.0" };
const { URL: url, ADMIN } = process.env;
const PAUSE = 50;
// What a person fills in, by the name of the field.
const FORM = {
  name: "Ada",
  color: "blue",
  username: "ada",
  email: "ada@example.com",
  context: "tests",
  confirm: true,
  approve: true,
  reason: "so be it",
};

const modern = "2026-07-28";
const legacy = "2025-11-25";
/** Every way to reach the router, each with the SDK that is used, by its major version. */
export const PLACES = ["http", "stdio"].flatMap((transport) => [
  { transport, revision: legacy, sdk: 1 },
  { transport, revision: legacy, sdk: 2 },
  { transport, revision: modern, sdk: 2 },
]);
for (const place of PLACES) {
  place.isModern = place.revision === modern;
  place.config = place.transport === "http" ? "router.toml" : "stdio.toml";
}

/** Makes the transport of a program that has a token, or that starts the router itself. */
function reach({ transport, sdk }, token, options) {
  if (transport === "stdio") {
    const Stdio = sdk === 1 ? v1stdio.StdioClientTransport : StdioClientTransport;
    return new Stdio({ command: "./stdio", stderr: openSync("stdio.log", "a") });
  }
  const Http = sdk === 1 ? v1http.StreamableHTTPClientTransport : StreamableHTTPClientTransport;
  const headers = { Authorization: `Bearer ${process.env[token]}` };
  return new Http(new URL(`${url}/mcp`), { requestInit: { headers }, ...options });
}

/** Has a client of its own do something. */
export async function connected(place, { token = "APPLY", answers = {}, capabilities = {}, transport, ...options }, use) {
  const declared = { ...capabilities };
  for (const method of Object.keys(answers)) declared[method.split("/")[0]] = {};
  const settings = { capabilities: declared, ...options };
  // The newer era is found out.
  if (place.isModern) settings.versionNegotiation = { mode: "auto" };
  const client = place.sdk === 1 ? new v1.Client(INFO, settings) : new Client(INFO, settings);
  const schema = {
    "elicitation/create": schemas.ElicitRequestSchema,
    "sampling/createMessage": schemas.CreateMessageRequestSchema,
    "roots/list": schemas.ListRootsRequestSchema,
  };
  for (const [method, answer] of Object.entries(answers))
    client.setRequestHandler(place.sdk === 1 ? schema[method] : method, answer);
  const wrong = [];
  client.onerror = (error) => {
    // When it stops to listen it says so twice: it closes the stream, as it should, and sends a notification, for
    // which it forgets a header.
    if (!/missing required Mcp-Method header/.test(error.message)) wrong.push(error);
  };
  await client.connect(reach(place, token, transport));
  try {
    if (place.sdk === 2 && transport === undefined)
      assert.equal(client.getNegotiatedProtocolVersion(), place.revision);
    await use(client);
    await client.transport.terminateSession?.();
  } finally {
    await client.close();
  }
  assert.deepEqual(wrong, []);
}

export const call = (client, name, args = {}, { meta, ...options } = {}) => {
  const params = { name, arguments: args, ...(meta && { _meta: meta }) };
  return client instanceof Client ? client.callTool(params, options) : client.callTool(params, undefined, options);
};

/** Hears notifications of a kind. */
export function hear(client, method, schema, handler) {
  client.setNotificationHandler(client instanceof Client ? method : schema, handler);
}

/** Asks the daemon by HTTP, as its administrator. */
export async function api(method, path, body) {
  const headers = { Authorization: `Bearer ${ADMIN}` };
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

/** Asks the router's own record, by its own program. */
export async function router(place, ...args) {
  const { stdout } = await run("./nexus-router", [...args, "--config", place.config, "--format", "json"]);
  return JSON.parse(stdout);
}

/** Asks until there is an answer. Every check has its limit, so this needs none. */
export async function eventually(ask) {
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** Waits for the run of a call to be under way, and returns its id. */
export async function begun(place, tool) {
  const run = await eventually(async () => {
    const { runs } = await router(place, "runs", "list", "--status", "RUNNING");
    return runs.find(({ goal }) => goal === `call ${tool}`);
  });
  return run.run_id;
}

/** Waits for a run to be over, and sees that it was cancelled. */
export async function wasCancelled(place, id) {
  const run = await eventually(async () => {
    const { runs } = await router(place, "runs", "list", "--status", "FAILED");
    return runs.find(({ run_id }) => run_id === id);
  });
  assert.equal(run.last_failure_reason, "cancelled");
}

export const text = ({ content }) => {
  assert.equal(content.length, 1);
  return content[0].text;
};

/** Returns the code of an error, and the router's own. */
export async function refusal(promise) {
  const answer = await promise.then(JSON.stringify, (error) => [error.code, error.data?.code]);
  assert(Array.isArray(answer), `this was not refused: ${answer}`);
  return answer;
}

export const fillIn = ({ params }) => {
  const names = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(names.map((name) => [name, FORM[name]])) };
};
