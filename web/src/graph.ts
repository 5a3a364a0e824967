// The nodes and links that are served, with their places.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Graph } from "./api.gen";
import { status } from "./live";
import { Failure, get } from "./server";

export const graph = signal<Graph | null>(null);
let asked = "";

/** Asks for the graph of a namespace, and again when another generation serves. */
export function useGraph(namespace: string): void {
  const generation = status.value?.generation;
  useEffect(() => {
    const key = `${namespace}\n${generation}`;
    if (asked === key) return;
    asked = key;
    get<Graph>("/api/v1/graph?namespace=" + encodeURIComponent(namespace))
      .catch((err) => {
        if (err instanceof Failure && err.status === 404) return { generation: generation ?? 0, diagram: { width: 0, height: 0, nodes: [], links: [] } };
        asked = "";
        throw err;
      })
      .then((g) => {
        if (asked === key) graph.value = g;
      });
  }, [namespace, generation]);
}
