// The breakpoints and the processes that are held. They stay for as long as the page asks for them.

import { signal } from "@preact/signals";
import type { Breakpoint, Debug, Move } from "./api.gen";
import { ask, get, put } from "./server";

export const debug = signal<Debug>({ breakpoints: [], held: [], skipped: 0, messages: [] });
/** What the program says against the last change; empty for nothing. */
export const against = signal("");

let timer = 0;

function take(state: Debug): void {
  debug.value = state;
  clearTimeout(timer);
  if (state.breakpoints.length || state.held.length) timer = setTimeout(() => void look(), 1000);
}

/** Asks for the state, and again each second while there is something. */
export const look = () => get<Debug>("/api/v1/debug").then(take, () => {
  timer = setTimeout(() => void look(), 1000); // the bar says that the program is gone
});

async function change(asked: Promise<Debug>): Promise<void> {
  against.value = "";
  await asked.then(take, (err: Error & { hint?: string }) => {
    against.value = [err.message, err.hint].filter(Boolean).join(": ");
    return look();
  });
}

/** Replaces all breakpoints. */
export const setBreakpoints = (list: Breakpoint[]) => change(put<Debug>("/api/v1/debug/breakpoints", { list: list.map(({ hits, faulty, ...b }) => b) }));

/** Lets a process go on. */
export const move = (id: number, m: Move) => change(ask<Debug>("/api/v1/debug/held/" + id, m));
