// The official TypeScript SDK against the router: what people write with it works, in both eras of the protocol,
// over HTTP and over standard input; and so does the SDK before it, which most programs still have. It runs in
// the directory that `sdks` makes, and prints a line for every check.

import assert from "node:assert/strict";
import { readFileSync, renameSync, writeFileSync } from "node:fs";

import { LOG_LEVEL_META_KEY } from "@modelcontextprotocol/client";
import * as schemas from "@modelcontextprotocol/sdk/types.js";

import {
  INFO,
  PLACES,
  api,
  begun,
  call,
  connected,
  eventually,
  fillIn,
  hear,
  refusal,
  router,
  run,
  text,
  wasCancelled,
} from "./place.mjs";
import { following } from "./tasks.mjs";

// Nothing here takes that long; what does is stuck.
const LIMIT = 40_000;
const TASKS = "io.modelcontextprotocol/tasks";
const WATCHED = "test://watched-resource";
// One tool more, as a part of the configuration.
const LATER = `
[[tools]]
name = "later"
description = "Was not there before."
adapter = "conformance"
tool = "test_simple_text"
method = "call"
`;

const checks = {
  lists: async (place) =>
    connected(place, {}, async (client) => {
      const { tools } = await client.listTools();
      const names = tools.map(({ name }) => name);
      assert(names.length > 30);
      assert.deepEqual(names, names.toSorted());
      // Nobody may call it, so it is not there.
      assert(!names.includes("test_audio_content"));
      const region = tools.find(({ name }) => name === "region");
      const hints = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
      assert.deepEqual(region.annotations, hints);
      assert.deepEqual(region.outputSchema.required, ["region"]);
      const rich = tools.find(({ name }) => name === "json_schema_2020_12_tool").inputSchema;
      for (const keyword of ["$defs", "allOf", "if", "then", "else"]) assert(keyword in rich, keyword);
      const { resources } = await client.listResources();
      const uris = resources.map(({ uri }) => uri);
      assert.deepEqual(uris, ["test://static-binary", "test://static-text", WATCHED]);
      const { resourceTemplates } = await client.listResourceTemplates();
      assert.deepEqual(resourceTemplates.map(({ uriTemplate }) => uriTemplate), ["test://template/{id}/data"]);
      const { prompts } = await client.listPrompts();
      assert.equal(prompts.length, 5);
      const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" };
      const { completion } = await client.complete({ ref, argument: { name: "arg1", value: "test" } });
      assert.deepEqual(completion.values, ["testValue1"]);
    }),

  reads: async (place) =>
    connected(place, { answers: { "elicitation/create": fillIn } }, async (client) => {
      const read = async (uri) => (await client.readResource({ uri })).contents[0];
      assert.match((await read("test://static-text")).text, /^This is the content/);
      assert.equal((await read("test://static-binary")).mimeType, "image/png");
      assert.equal(JSON.parse((await read("test://template/7/data")).text).id, "7");
      // The second SDK has one code for it, whatever the era has.
      const unknown = place.sdk === 1 ? -32002 : -32602;
      assert.equal((await refusal(read("test://nowhere")))[0], unknown);
      const get = async (name, args) => (await client.getPrompt({ name, arguments: args })).messages[0].content.text;
      const given = { arg1: "a", arg2: "b" };
      assert.equal(await get("test_prompt_with_arguments", given), "Prompt with arguments: arg1='a', arg2='b'");
      assert.equal(await get("test_input_required_result_prompt"), "Use this context: tests");
      assert.deepEqual(await refusal(get("nobody")), [-32602, "UNKNOWN_PROMPT"]);
    }),

  calls: async (place) =>
    connected(place, {}, async (client) => {
      const progress = [];
      const log = [];
      hear(client, "notifications/message", schemas.LoggingMessageNotificationSchema, ({ params }) => {
        log.push(params);
      });
      if (!place.isModern) await client.setLoggingLevel("info");
      const meta = place.isModern ? { [LOG_LEVEL_META_KEY]: "info" } : undefined;
      // The SDK holds results to the schemas of tools that it knows.
      await client.listTools();
      assert.match(text(await call(client, "test_simple_text")), /^This is a simple text/);
      const mixed = await call(client, "test_multiple_content_types");
      assert.deepEqual(mixed.content.map(({ type }) => type), ["text", "image", "resource"]);
      const region = await call(client, "region", { region: "eu" });
      assert.deepEqual(region.structuredContent, { region: "eu" });
      assert.deepEqual(JSON.parse(text(region)), { region: "eu" });

      await call(client, "test_tool_with_progress", {}, { onprogress: (it) => progress.push(it) });
      assert.deepEqual(progress.map((it) => it.progress), [0, 50, 100]);
      assert.equal(progress[1].message, "Completed step 50 of 100");
      await call(client, "test_tool_with_logging", {}, { meta });
      assert.deepEqual(log.map(({ level }) => level), ["info", "info", "info"]);
      assert.equal(log[0].data, "Tool execution started");

      const failure = await call(client, "test_error_handling");
      assert(failure.isError && /intentionally/.test(text(failure)));
      const misfit = await call(client, "region", { region: 1 });
      assert(misfit.isError && /^ARGUMENTS_INVALID/.test(text(misfit)));
      assert.deepEqual(await refusal(call(client, "nothing")), [-32602, "UNKNOWN_TOOL"]);
      assert.deepEqual(await refusal(call(client, "test_audio_content")), [-32602, "PERMISSION_DENIED"]);
    }),

  answers: async (place) => {
    const said = ({ params }) => ({ type: "text", text: `${params.maxTokens} tokens` });
    const answers = {
      "elicitation/create": fillIn,
      "sampling/createMessage": (request) => ({ role: "assistant", model: "none", content: said(request) }),
      "roots/list": () => ({ roots: [{ uri: "file:///srv" }] }),
    };
    const who = { message: "Who are you?" };
    await connected(place, { answers }, async (client) => {
      const form = text(await call(client, "test_elicitation", who));
      assert.match(form, /action=accept, content=\{"username":"ada","email":"ada@example.com"\}/);
      const rounds = text(await call(client, "test_input_required_result_multi_round"));
      assert.equal(rounds, 'name "Ada", color "blue"');
      const several = text(await call(client, "test_input_required_result_multiple_inputs"));
      assert.equal(several, 'name "Ada", greeting 50 tokens, roots [{"uri":"file:///srv"}]');
    });
    const decline = { "elicitation/create": () => ({ action: "decline" }) };
    await connected(place, { answers: decline }, async (client) => {
      assert.match(text(await call(client, "test_elicitation", who)), /action=decline/);
    });
    await connected(place, {}, async (client) => {
      // Who has nobody to ask is told so.
      assert.equal((await refusal(call(client, "test_elicitation", who)))[0], -32021);
    });
  },

  cancels: async (place) =>
    connected(place, {}, async (client) => {
      const gone = new AbortController();
      const args = { seconds: 60, label: "x" };
      const calling = refusal(call(client, "slow_compute", args, { signal: gone.signal }));
      const id = await begun(place, "slow_compute");
      gone.abort("enough");
      await calling;
      await wasCancelled(place, id);
      // The connection is as good as before.
      await call(client, "test_simple_text");
    }),

  // A call that needs an approval, by a client that knows nothing of tasks.
  waits: async (place) => {
    const approvals = async () => {
      const listed =
        place.transport === "http"
          ? api("GET", "/v1/approvals")
          : router(place, "approvals", "list", "--db", "local/runs.db");
      return (await listed).approvals;
    };
    const decide = async (id, answer) => {
      if (place.transport === "http") {
        await api("POST", `/v1/approvals/${id}/${answer}`, { reason: "so be it" });
        return;
      }
      // The run goes on in this process; the one of the client sees what came of it. A run that fails is a no.
      const command = ["approvals", answer, id, "--db", "local/runs.db", "--config", place.config];
      await run("./nexus-router", command).catch((error) => {
        if (answer === "approve") throw error;
      });
    };
    const others = (await approvals()).map(({ approval_id }) => approval_id);
    const asked = async () => (await approvals()).find(({ approval_id }) => !others.includes(approval_id));
    await connected(place, {}, async (client) => {
      const decided = async (answer) => {
        const calling = call(client, "greet", { name: "Ada" });
        const { approval_id } = await eventually(asked);
        await decide(approval_id, answer);
        return calling;
      };
      assert.equal(text(await decided("approve")), "Hello, Ada!");
      const denied = await decided("deny");
      assert(denied.isError && /^APPROVAL_DENIED/.test(text(denied)));
      const gone = new AbortController();
      const calling = refusal(call(client, "greet", { name: "Ada" }, { signal: gone.signal }));
      const { approval_id } = await eventually(asked);
      gone.abort("enough");
      await calling;
      // The approval outlasts the client that gave up.
      assert.equal((await asked()).approval_id, approval_id);
      await decide(approval_id, "approve");
      assert.equal(await asked(), undefined);
    });
  },

  // Changes are told: of a resource that is followed, and of the tools, after a reload.
  hears: async (place) => {
    const before = readFileSync(place.config, "utf8");
    const reload = async (content) => {
      writeFileSync(`${place.config}.new`, content);
      renameSync(`${place.config}.new`, place.config);
      // Else the router sees by itself that the file has changed.
      if (place.transport === "http") await api("POST", "/v1/reload");
    };
    const updated = [];
    const lists = [];
    const onChanged = (error, tools) => lists.push(error ?? tools.map(({ name }) => name));
    await connected(place, { listChanged: { tools: { onChanged } } }, async (client) => {
      hear(client, "notifications/resources/updated", schemas.ResourceUpdatedNotificationSchema, ({ params }) => {
        updated.push(params.uri);
      });
      try {
        const listening = place.isModern
          ? await client.listen({ resourceSubscriptions: [WATCHED] })
          : await client.subscribeResource({ uri: WATCHED });
        await call(client, "test_trigger_resource_update");
        await eventually(() => updated.includes(WATCHED));
        if (place.isModern) await listening.close();
        else await client.unsubscribeResource({ uri: WATCHED });
        await reload(before + LATER);
        await eventually(() => lists.some((names) => names.includes("later")));
        assert.match(text(await call(client, "later")), /^This is a simple text/);
      } finally {
        await reload(before);
      }
    });
  },

  // Calls become tasks, which the SDK's own package for them follows.
  follows: async (place) => {
    const asked = [];
    const answer = (request, { inputId }) => {
      asked.push(inputId);
      return fillIn(request);
    };
    const able = { elicitation: {} };
    await connected(place, { capabilities: able }, async (client) => {
      const session = following(client, INFO, able, answer);
      const settled = async (name, args) => {
        const execution = await session.callTool(name, args);
        assert.equal(execution.kind, "task", name);
        return (await execution.settle()).outcome;
      };
      const slow = await settled("slow_compute", { seconds: 1, label: "x" });
      assert.equal(text(slow.result), "Computed x in 1 seconds");
      const deleted = await settled("confirm_delete", { filename: "a.txt" });
      assert.equal(text(deleted.result), "Deleted a.txt");
      assert.deepEqual(asked, ["confirm"]);
      const failed = await settled("failing_job");
      assert(failed.result.isError && /^JOB_FAILED/.test(text(failed.result)));
      const broken = await settled("protocol_error_job");
      assert.deepEqual([broken.status, broken.error.code], ["failed", -32603]);

      const execution = await session.callTool("slow_compute", { seconds: 60 });
      await execution.cancel();
      const { outcome } = await execution.settle();
      assert.equal(outcome.status, "cancelled");
      await wasCancelled(place, execution.handle.taskId);
      assert.deepEqual(await refusal(session.task("none").snapshot()), [-32602, "UNKNOWN_TASK"]);
      await session.close();
    });
    await connected(place, {}, async (client) => {
      // Who does not know tasks waits for the result.
      assert.match(text(await call(client, "slow_compute", { seconds: 0.5 })), /^Computed/);
    });
  },

  // A call that needs an approval is a task that asks for it.
  approves: async (place) => {
    const greeted = async (content) => {
      const asked = [];
      let result;
      await connected(place, { capabilities: { elicitation: {} } }, async (client) => {
        const session = following(client, INFO, { elicitation: {} }, (_, { inputId }) => {
          asked.push(inputId);
          return { action: "accept", content };
        });
        const execution = await session.callTool("greet", { name: "Ada" });
        ({ result } = (await execution.settle()).outcome);
        await session.close();
      });
      assert.equal(asked.length, 1);
      assert.match(asked[0], /^approval-/);
      return result;
    };
    assert.equal(text(await greeted({ approve: true })), "Hello, Ada!");
    const denied = await greeted({ approve: false, reason: "not today" });
    assert(denied.isError && /not today/.test(text(denied)));
  },

  // The older era has none of these tasks, whatever a client says it can.
  has_no_tasks: async (place) =>
    connected(place, { capabilities: { extensions: { [TASKS]: {} } } }, async (client) => {
      assert.match(text(await call(client, "slow_compute", { seconds: 0.5 })), /^Computed/);
    }),

  // A token that may only read finds nothing, and none at all gets in.
  keeps_out: async (place) => {
    await connected(place, { token: "READ" }, async (client) => {
      assert.deepEqual((await client.listTools()).tools, []);
      assert.deepEqual((await client.listResources()).resources, []);
      assert.deepEqual((await client.listPrompts()).prompts, []);
      assert.deepEqual(await refusal(call(client, "test_simple_text")), [-32000, "SCOPE_MISSING"]);
      const reading = client.readResource({ uri: "test://static-text" });
      assert.deepEqual(await refusal(reading), [-32000, "SCOPE_MISSING"]);
    });
    await assert.rejects(connected(place, { token: "NOBODY" }, () => assert.fail("nobody got in")), /TOKEN_|401/);
  },

  keeps_sessions_apart: async (place) =>
    connected(place, {}, async (client) => {
      const { sessionId } = client.transport;
      assert(sessionId);
      // The SDK goes on with a session whose id it is given.
      const found = (token, use) => connected(place, { token, transport: { sessionId } }, use);
      for (const token of ["OTHER", "READ"])
        await assert.rejects(found(token, (other) => call(other, "test_simple_text")), /no such session/);
      await call(client, "test_simple_text");
    }),

  keeps_tasks_apart: async (place) =>
    connected(place, {}, async (client) => {
      const session = following(client, INFO, {});
      const execution = await session.callTool("slow_compute", { seconds: 60 });
      const { taskId } = execution.handle;
      for (const token of ["OTHER", "READ"])
        await connected(place, { token }, async (other) => {
          const foreign = following(other, INFO, {});
          const task = foreign.task(taskId);
          for (const ask of [() => task.snapshot(), () => task.cancel(), () => task.update({})])
            assert.deepEqual(await refusal(ask()), [-32602, "UNKNOWN_TASK"]);
          await foreign.close();
        });
      assert.equal((await session.task(taskId).snapshot()).status, "working");
      await execution.cancel();
      await wasCancelled(place, taskId);
      await session.close();
    }),
};

/** Returns what is checked in a place. */
function chosen({ transport, isModern }) {
  const names = ["lists", "reads", "calls", "answers", "cancels", "waits", "hears"];
  names.push(...(isModern ? ["follows", "approves"] : ["has_no_tasks"]));
  if (transport === "http") names.push("keeps_out", isModern ? "keeps_tasks_apart" : "keeps_sessions_apart");
  return names;
}

const version = (name) =>
  JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), "utf8")).version;
const passed = { 1: 0, 2: 0 };
const all = { 1: 0, 2: 0 };
for (const place of PLACES)
  for (const name of chosen(place)) {
    const title = `typescript-${place.sdk} ${place.transport} ${place.revision} ${name}`;
    all[place.sdk] += 1;
    let timer;
    const limit = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`it took more than ${LIMIT} ms`)), LIMIT);
    });
    try {
      await Promise.race([checks[name](place), limit]);
      passed[place.sdk] += 1;
      console.log(`pass ${title}`);
    } catch (error) {
      console.error(`FAIL ${title}\n${error.stack}`, error.cause ?? "");
    } finally {
      clearTimeout(timer);
    }
  }
const summary = (sdk, name) => `TypeScript SDK ${version(name)}: ${passed[sdk]} of ${all[sdk]}`;
console.log([summary(1, "@modelcontextprotocol/sdk"), summary(2, "@modelcontextprotocol/client")].join("; "));
// What a check that failed left behind does not keep the process.
process.exit(passed[1] === all[1] && passed[2] === all[2] ? 0 : 1);
