// What the program says of itself, as it changes. The stream is closed ten seconds after the tab is hidden.

import { batch, signal } from "@preact/signals";
import type { Hello, Metrics, NodeMetrics, Status } from "./api.gen";
import { enter, events, Failure, get } from "./server";

/** The numbers of a node, with its rates of the last minute. */
export interface Row extends NodeMetrics {
  past: number[];
}

export const status = signal<Status | null>(null);
export const rows = signal<ReadonlyMap<string, Row>>(new Map());
export const total = signal({ running: 0, started: 0 });
/** When the last event came; 0 before the first. */
export const heard = signal(0);
export const refused = signal<Failure | null>(null);

const seconds = 60;
const hideAfter = 10_000;

/** What numbers are found by: nodes without a name are summed up by kind. */
export const keyOf = (kind: string, namespace: string, path = "") => `${namespace}\n${path}\n${path ? "" : kind}`;

async function learn(): Promise<void> {
  status.value = await get<Status>("/api/v1/status");
}

function take(keys: string[], m: Metrics): void {
  const next = new Map<string, Row>();
  const changed = new Map(m.rows.map((row) => [row.node, row]));
  keys.forEach((key, i) => {
    const before = rows.value.get(key);
    const row = changed.get(i) ?? before;
    if (row) next.set(key, { ...row, past: [...(before?.past ?? []), row.rate].slice(-seconds) });
  });
  batch(() => {
    rows.value = next;
    total.value = { running: m.in_flight, started: m.started };
  });
}

/** Follows the program for as long as the page is open. */
export async function follow(): Promise<never> {
  const code = /[#&]code=(\w+)/.exec(location.hash);
  if (code) {
    history.replaceState(null, "", location.pathname);
    await enter({ code: code[1]! }).catch((err) => console.warn(err)); // the page shows what may be viewed
  }
  for (let wait = 1; ; wait = Math.min(2 * wait, 15)) {
    const visit = new AbortController();
    let timer = 0;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => visit.abort(), hideAfter);
    };
    const leave = () => visit.abort(); // a page that is kept for the way back would keep its connection
    document.addEventListener("visibilitychange", look);
    addEventListener("pagehide", leave);
    try {
      await learn();
      let keys: string[] = [];
      await events((name, data) => {
        heard.value = Date.now();
        wait = 1;
        if (name === "hello") {
          keys = (data as Hello).nodes.map((n) => keyOf(n.kind, n.namespace, n.name));
          void learn().catch(() => undefined); // the next event tells that the program is gone
        } else if (name === "metrics") {
          take(keys, data as Metrics);
        }
      }, visit.signal);
    } catch (err) {
      if (err instanceof Failure && err.status === 401) refused.value = err;
    } finally {
      document.removeEventListener("visibilitychange", look);
      removeEventListener("pagehide", leave);
      clearTimeout(timer);
      visit.abort();
    }
    if (document.hidden) await new Promise((go) => document.addEventListener("visibilitychange", go, { once: true }));
    else await new Promise((go) => setTimeout(go, wait * 1000));
    if (refused.value) await new Promise<void>((go) => (again = go));
  }
}

let again = () => {};

/** Goes on with a token. */
export async function enterToken(token: string): Promise<void> {
  await enter({ token });
  refused.value = null;
  again();
}
