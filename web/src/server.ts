// What the page asks of the program. A token is kept for the tab, in no cookie: cookies go to every port
// of a host.

import type { Credentials, Session } from "./api.gen";

const key = "uniflow-token";
let token = sessionStorage.getItem(key) ?? "";

export class Failure extends Error {
  constructor(readonly status: number, message: string, readonly hint = "") {
    super(message);
  }
}

/** What a failure says, in a line. */
export const said = (err: { message: string; hint?: string }) => [err.message, err.hint].filter(Boolean).join(": ");

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  if (token) headers["Authorization"] = "Bearer " + token;
  if (body) headers["Content-Type"] = "application/json";
  const resp = await fetch(path, { method, headers, signal: signal ?? null, body: body ? (typeof body === "string" ? body : JSON.stringify(body)) : null });
  if (resp.ok) return resp;
  if (resp.status === 401 && token) { // the program has started again
    token = "";
    sessionStorage.removeItem(key);
    return send(method, path, body, signal);
  }
  const text = await resp.text();
  let message = text;
  let hint = "";
  try {
    ({ message, hint = "" } = JSON.parse(text));
  } catch {
    // a text that is not JSON is the message
  }
  throw new Failure(resp.status, message, hint);
}

export async function get<T>(path: string): Promise<T> {
  return (await send("GET", path)).json();
}

export async function post(path: string): Promise<void> {
  await send("POST", path);
}

export async function put<T>(path: string, body: unknown): Promise<T> {
  return (await send("PUT", path, body)).json();
}

/** Asks with a body, of which a text is sent as it is: numbers in it keep all their digits. */
export async function ask<T>(path: string, body: unknown): Promise<T> {
  return (await send("POST", path, body)).json();
}

/** Opens a session, which later requests belong to. */
export async function enter(by: Credentials): Promise<void> {
  const session: Session = await (await send("POST", "/api/v1/session", by)).json();
  token = session.token;
  sessionStorage.setItem(key, token);
}

/** Reads the stream of events until it ends. */
export async function events(on: (name: string, data: unknown) => void, signal: AbortSignal): Promise<void> {
  const resp = await send("GET", "/api/v1/events", undefined, signal);
  const reader = resp.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop()!;
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part);
      const data = /^data: (.*)$/m.exec(part);
      on(name ? name[1]! : "", data ? JSON.parse(data[1]!) : null);
    }
  }
}
