// Judges streams of our door by what the official client of AG-UI has: its schemas, `verifyEvents`, and `HttpAgent`.
// Prints a row for each scenario as a line of JSON; its argument is what is judged.
import { readFileSync } from "node:fs";
import { HttpAgent, buildResumeArray, verifyEvents } from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";
import { from, lastValueFrom, toArray } from "rxjs";

const asked = JSON.parse(readFileSync(process.argv[2], "utf8"));
// Where a server is killed, the client also loses a promise of its own.
process.on("unhandledRejection", (error) => {
  if (!`${error}`.includes("terminated")) throw error;
});
const TERMINAL = new Set(["RUN_FINISHED", "RUN_ERROR"]);
let checks = [];
let warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));

function check(holds, what) {
  checks.push(holds ? "" : what);
}

async function scenario(part, name, judge) {
  if (!`${name}`.includes(asked.only)) return;
  checks = [];
  warnings = [];
  try {
    await judge();
    check(warnings.length === 0, `the client warns: ${warnings[0]}`);
  } catch (error) {
    check(false, `${error?.stack ?? error}`);
  }
  const wrong = checks.filter((one) => one !== "");
  const row = { part, scenario: name, passed: checks.length - wrong.length, checks: checks.length, why: wrong };
  process.stdout.write(`${JSON.stringify(row)}\n`);
}

const sorted = (value) =>
  Array.isArray(value)
    ? value.map(sorted)
    : value && typeof value === "object"
      ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]))
      : value;
function equal(found, wanted, what) {
  const place = found.findIndex((one, index) => !same(one, wanted[index]));
  const [one, other] = [found[place], wanted[place]].map((one) => JSON.stringify(sorted(one ?? null)));
  let from = 0;
  while (from < one.length && one[from] === other[from]) from++;
  const told = [one, other].map((one) => one.slice(Math.max(0, from - 100), from + 300)).join("\n  not ");
  check(same(found, wanted), `${what} (${found.length} of ${wanted.length}): ${told}`);
}

const same = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));

// The events of a stream, each of which fits its schema whole, and which are in the order that the protocol wants.
async function verified(text) {
  check(!text.includes("\r"), "lines end with LF");
  const frames = text.split("\n\n").filter((one) => one !== "" && !one.startsWith(":"));
  check(frames.every((one) => one.startsWith("data: ") && !one.includes("\n")), "a frame is one line of data");
  const events = frames.map((one) => JSON.parse(one.slice(6)));
  for (const event of events) {
    const found = EventSchema.safeParse(event);
    check(found.success, `${JSON.stringify(event).slice(0, 300)} does not fit: ${found.error?.message}`);
    if (found.success) check(same(found.data, event), `${JSON.stringify(event).slice(0, 300)} has unknown fields`);
  }
  const passed = await lastValueFrom(from(events).pipe(verifyEvents(false), toArray()));
  check(passed.length === events.length, "verifyEvents passes on all events");
  check(events[0]?.type === "RUN_STARTED" && events[0].protocolVersion === "1.0", "it begins with RUN_STARTED");
  check(TERMINAL.has(events.at(-1)?.type), "it ends with the run");
  return events;
}

class Client {
  constructor(team, threadId = crypto.randomUUID(), messages = []) {
    this.texts = [];
    this.agent = new HttpAgent({
      url: `${asked.url}/agui/${team}`,
      headers: { Authorization: `Bearer ${asked.token}` },
      threadId,
      initialMessages: messages,
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        if (!response.ok) return response;
        const [own, theirs] = response.body.tee();
        this.texts.push(new Response(own).text().catch((error) => `${error}`));
        return new Response(theirs, { status: response.status, headers: response.headers });
      },
    });
  }

  say(content) {
    this.agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
    return this;
  }

  // Run, and return the events of the stream once they are verified.
  async run(parameters = {}, subscriber = {}) {
    let failure;
    await this.agent.runAgent(parameters, { ...subscriber, onRunErrorEvent: ({ event }) => (failure = event) }).catch(
      (error) => {
        if (failure === undefined) throw error;
      },
    );
    return verified(await this.texts.at(-1));
  }

  // Answer all open questions: the first choice, or a text.
  answers(text = "so") {
    const pending = this.agent.pendingInterrupts;
    const answer = (one) => one.responseSchema.properties.answer.enum?.[0] ?? text;
    const responses = pending.map((one) => [one.id, { status: "resolved", payload: { answer: answer(one) } }]);
    return buildResumeArray(pending, Object.fromEntries(responses));
  }

  async finish(events) {
    while (this.agent.pendingInterrupts.length) events = await this.run({ resume: this.answers() });
    return events;
  }

  get answer() {
    return this.agent.messages.filter((one) => one.role === "assistant" && !one.subagentRunId && one.content).at(-1);
  }
}

const outcome = (events) => events.at(-1).outcome?.type ?? events.at(-1).type;
const run = async (client, ...more) => outcome(await client.run(...more));

async function back(pid) {
  for (let tries = 0; tries < 2400; tries++) {
    try {
      if (readFileSync(asked.pid, "utf8") !== pid) {
        await fetch(`${asked.url}/api/session`);
        return;
      }
    } catch {}
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("the server does not come back");
}

function kill() {
  const pid = readFileSync(asked.pid, "utf8");
  process.kill(Number(pid), "SIGKILL");
  return back(pid);
}

const LIVE = "The examples, live";
for (const { team, task } of asked.examples)
  await scenario(LIVE, team, async () => {
    const client = new Client(team).say(task);
    const user = structuredClone(client.agent.messages);
    const runId = crypto.randomUUID();
    const events = await client.run({ runId });
    const first = structuredClone(client.agent.messages);
    const again = new Client(team, client.agent.threadId, user);
    await again.run({ runId });
    equal(shown(again.agent.messages), shown(first), "another client reads the same messages again");
    const pending = client.agent.pendingInterrupts;
    client.agent.pendingInterrupts = []; // the client would not ask again
    await client.run({ runId });
    equal(shown(client.agent.messages), shown(first), "the same client keeps each message once");
    client.agent.pendingInterrupts = pending;
    const ended = (await client.finish(events)).at(-1);
    const { status, stopReason } = ended.metadata.teamwright;
    const limited = status === "degraded" && stopReason !== "done";
    check(outcome([ended]) === (limited ? "cancelled" : "success"), `it ends well: ${JSON.stringify(ended)}`);
    check(typeof ended.result !== "string" || client.answer.content === ended.result, "it has the answer");
  });

// What a client shows of messages, but for what members thought.
function shown(messages) {
  const kept = messages.filter((one) => one.role !== "reasoning" && (one.content || one.toolCalls));
  return kept.sort((one, other) => (one.id < other.id ? -1 : 1)); // members write at once
}

const ASKED = "Questions, failures and limits";
await scenario(ASKED, "one question after the other", async () => {
  const client = new Client("asking").say("Go");
  check((await run(client)) === "interrupt", "it asks");
  const [question] = client.agent.pendingInterrupts;
  check(question.message === "Which colour?" && same(question.responseSchema.properties.answer.enum, ["red", "blue"]), "it says what");
  check((await run(client, { resume: client.answers() })) === "interrupt", "it asks again");
  check((await run(client, { resume: client.answers("it is warm") })) === "success", "it succeeds");
  check(client.answer.content === "red because it is warm", "both answers count");
});
await scenario(ASKED, "two questions answered at once", async () => {
  const client = new Client("several").say("Go");
  check((await run(client)) === "interrupt" && client.agent.pendingInterrupts.length === 2, "it asks both");
  check((await run(client, { resume: client.answers("yes") })) === "success", "it succeeds");
  check(client.answer.content === "left yes, right yes", "both answers count");
});
await scenario(ASKED, "two questions answered in part", async () => {
  const client = new Client("several").say("Go");
  await client.run();
  const [first, second] = client.answers("yes");
  client.agent.pendingInterrupts = [];
  check((await run(client, { resume: [first] })) === "interrupt", "it asks what is left");
  check(same(client.agent.pendingInterrupts.map((one) => one.id), [second.interruptId]), "it asks that alone");
  check((await run(client, { resume: [second] })) === "success", "it succeeds");
});
await scenario(ASKED, "an answer that is no choice", async () => {
  const client = new Client("asking").say("Go");
  await client.run();
  const resume = [{ ...client.answers()[0], payload: "green" }];
  const refused = await client.agent.runAgent({ resume }).then(() => null, (error) => error);
  check(refused?.status === 400 && refused.payload.error.message.includes("red, blue"), `it is refused: ${refused}`);
  check((await run(client, { resume: client.answers() })) === "interrupt", "the question stays");
});
await scenario(ASKED, "an approval that is abandoned", async () => {
  const client = new Client("gated").say("Go");
  await client.run();
  const resume = [{ interruptId: client.agent.pendingInterrupts[0].id, status: "cancelled" }];
  const events = await client.run({ resume });
  check(outcome(events) === "RUN_ERROR" && events.at(-1).code === "rejected", "the draft is rejected");
});
await scenario(ASKED, "a question that is abandoned", async () => {
  const client = new Client("asking").say("Go");
  await client.run();
  const resume = [{ interruptId: client.agent.pendingInterrupts[0].id, status: "cancelled" }];
  check((await run(client, { resume })) === "cancelled", "the run is cancelled");
  check((await run(client.say("Again"))) === "interrupt", "the thread goes on");
});
await scenario(ASKED, "a message instead of an answer", async () => {
  const client = new Client("asking").say("Go");
  await client.run();
  const reloaded = new Client("asking", client.agent.threadId).say("Never mind");
  const events = await reloaded.run();
  check(events.some((one) => one.name === "teamwright.warning"), "it says that the message is not read");
  check(outcome(await reloaded.finish(events)) === "success", "the questions can be answered there");
});
await scenario(ASKED, "a run that fails", async () => {
  const events = await new Client("failing").say("Go").run();
  check(outcome(events) === "RUN_ERROR" && events.at(-1).message.includes("no luck"), "it says why");
});
await scenario(ASKED, "a run that is cancelled", async () => {
  const client = new Client("sleeping").say("Go");
  const events = await client.run({}, {
    onSubagentStartedEvent: ({ event }) => event.name === "sleeper" && cancel(event.subagentRunId.split(":")[0]),
  });
  check(outcome(events) === "cancelled", "it is neither a failure nor a success");
});
await scenario(ASKED, "a run that is stopped by its limit", async () => {
  check((await run(new Client("poor").say("Go"))) === "cancelled", "it is no success");
});
await scenario(ASKED, "a thread of two turns", async () => {
  const client = new Client("slow").say("Go");
  check((await run(client)) === "success", "the first turn ends");
  check((await run(client.say("And then?"))) === "success", "the second turn ends");
});
await scenario(ASKED, "the client of the page about the server", async () => {
  const { ask } = await import("./page_client.mjs");
  const found = await ask(`${asked.url}/agui/gated`, asked.token, "Go", () => "approve");
  check(found === "as it should be", `it has the answer: ${found}`);
});

function cancel(runId) {
  const headers = { Authorization: `Bearer ${asked.token}`, "Content-Type": "application/json" };
  return fetch(`${asked.url}/api/runs/${runId}/cancel`, { method: "POST", headers, body: "{}" });
}

const KILLED = "The server killed";
if (asked.pid) {
  await scenario(KILLED, "between a question and its answer", async () => {
    const client = new Client("asking").say("Go");
    await client.run();
    await kill();
    check((await run(client, { resume: client.answers() })) === "interrupt", "the answer counts");
    await kill();
    check(outcome(await client.finish([])) === "success", "it succeeds");
    check(client.answer.content === "red because so", "both answers count");
  });
  await scenario(KILLED, "while a member writes", async () => {
    const client = new Client("slow").say("Go");
    const runId = crypto.randomUUID();
    let killed;
    const broken = await client.agent
      .runAgent({ runId }, { onTextMessageContentEvent: ({ event }) => event.messageId.endsWith(":answer") && (killed ??= kill()) })
      .then(() => null, (error) => error);
    check(killed !== undefined, "the server was killed");
    check(broken !== null || client.agent.messages.length < 3, "the stream broke");
    await killed;
    const events = await client.run({ runId });
    check(outcome(events) === "success", "the same request gets the end of the run");
    check(client.answer.content === events.at(-1).result, `each text is there once: ${client.answer.content}`);
    check(new Set(client.agent.messages.map((one) => one.id)).size === client.agent.messages.length, "each message too");
  });
  await scenario(KILLED, "after an answer was sent", async () => {
    const client = new Client("gated").say("Go");
    await client.run();
    const parameters = { runId: crypto.randomUUID(), resume: client.answers() };
    const pending = client.agent.pendingInterrupts;
    const body = { threadId: client.agent.threadId, messages: client.agent.messages, ...parameters };
    const headers = { Authorization: `Bearer ${asked.token}`, "Content-Type": "application/json" };
    await (await fetch(client.agent.url, { method: "POST", headers, body: JSON.stringify(body) })).body.cancel();
    await kill();
    client.agent.pendingInterrupts = pending;
    check((await run(client, parameters)) === "success", "the same request gets the end of the run");
    check(client.answer.content === "as it should be", "it has the answer");
  });
}

const RECORDED = "Recorded runs of every preset and strategy";
for (const { name, text } of asked.recorded)
  await scenario(RECORDED, name, async () => {
    const events = await verified(text);
    const agent = new HttpAgent({
      url: "http://recorded",
      threadId: events[0].threadId,
      fetch: async () => new Response(text, { headers: { "Content-Type": "text/event-stream" } }),
    });
    await agent.runAgent({ runId: events[0].runId }).catch((error) => {
      check(outcome(events) === "RUN_ERROR", `the client takes it: ${error}`);
    });
    check(agent.messages.length > 0, "the client has its messages");
  });
