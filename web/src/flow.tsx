import { useComputed, useSignal, useSignalEffect, type ReadonlySignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Diagram, DiagramNode, NodeDetail, Span, Timeline } from "./api.gen";
import { fitted, paint, wordsFrom, type Camera, type Path } from "./canvas";
import { graph, useGraph } from "./graph";
import { Inspector } from "./inspector";
import { keyOf, rows } from "./live";
import { get } from "./server";
import { count, duration, plain, rate, t } from "./text";
import type { ViewProps } from "./view";

const zoomLeast = 0.05;
const zoomMost = 3;

/** The nodes and links of a namespace, with what passes. */
export function Flow({ namespace, selected, select, process, open, edit }: ViewProps) {
  useGraph(namespace);
  const canvas = useRef<HTMLCanvasElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const camera = useSignal<Camera>({ x: 0, y: 0, zoom: 1 });
  const size = useSignal({ width: 0, height: 0 });
  const theme = useSignal(0);
  const touched = useRef(false); // the reader has moved the picture
  const d = useComputed(() => graph.value?.diagram ?? null);
  const chosen = useComputed(() => d.value?.nodes.findIndex((n) => n.id === current.value) ?? -1);
  const passed = usePath(d, process);
  const current = useSignal(selected);
  current.value = selected;

  const fit = () => {
    touched.current = false;
    if (d.value && size.value.width) camera.value = fitted(d.value, size.value);
  };
  useEffect(() => {
    const box = canvas.current!.parentElement!;
    const watch = new ResizeObserver(() => {
      size.value = { width: box.clientWidth, height: box.clientHeight };
    });
    watch.observe(box);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => theme.value++;
    dark.addEventListener("change", repaint);
    void document.fonts.ready.then(repaint);
    return () => {
      watch.disconnect();
      dark.removeEventListener("change", repaint);
    };
  }, []);
  useSignalEffect(() => {
    if (d.value && size.value.width && !touched.current) camera.value = fitted(d.value, size.value, wordsFrom); // a start that can be read
  });

  // One picture a frame at most, and none while nothing changes.
  const frame = useRef(0);
  useSignalEffect(() => {
    const draw = { d: d.value, camera: camera.value, size: size.value, rows: rows.value, chosen: chosen.value, theme: theme.value, passed: passed.value };
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => {
      if (canvas.current && draw.d) paint(canvas.current, draw.d, draw.camera, draw.size, draw.rows, draw.chosen, draw.passed);
      layer.current?.style.setProperty("transform", `translate(${draw.camera.x}px,${draw.camera.y}px) scale(${draw.camera.zoom})`);
    });
  });

  const zoomAt = (x: number, y: number, by: number) => {
    const { x: cx, y: cy, zoom } = camera.value;
    const next = Math.min(zoomMost, Math.max(zoomLeast, zoom * by));
    touched.current = true;
    camera.value = { zoom: next, x: x - ((x - cx) * next) / zoom, y: y - ((y - cy) * next) / zoom };
  };
  const move = (dx: number, dy: number) => {
    touched.current = true;
    camera.value = { ...camera.value, x: camera.value.x + dx, y: camera.value.y + dy };
  };

  // Fingers and the mouse: one moves the picture, two zoom.
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const place = (e: { clientX: number; clientY: number }) => {
    const box = canvas.current!.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };
  const onMove = (e: PointerEvent) => {
    const before = pointers.current.get(e.pointerId);
    if (!before) return;
    const now = place(e);
    const other = [...pointers.current].find(([id]) => id !== e.pointerId)?.[1];
    if (other) zoomAt(other.x, other.y, Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y)));
    else move(now.x - before.x, now.y - before.y);
    pointers.current.set(e.pointerId, now);
  };
  useEffect(() => {
    const onWheel = (e: WheelEvent) => {
      e.preventDefault();
      const at = place(e);
      if (e.ctrlKey || !e.shiftKey && Math.abs(e.deltaY) > Math.abs(e.deltaX)) zoomAt(at.x, at.y, Math.exp(-e.deltaY / 400));
      else move(-e.deltaX, -e.deltaY);
    };
    const box = canvas.current!.parentElement!;
    box.addEventListener("wheel", onWheel, { passive: false }); // a listener of JSX would be passive
    return () => box.removeEventListener("wheel", onWheel);
  }, []);

  const follow = (from: number, key: string) => {
    const links = d.value!.links;
    const to = key === "ArrowRight" ? links.find((l) => l.from === from)?.to : key === "ArrowLeft" ? links.find((l) => l.to === from)?.from : beside(d.value!, from, key === "ArrowDown");
    if (to !== undefined) layer.current!.querySelector<HTMLElement>(`[data-node="${to}"]`)?.focus();
  };
  const onKey = (e: KeyboardEvent) => {
    const node = (e.target as HTMLElement).dataset?.node;
    if (node && e.key.startsWith("Arrow")) {
      e.preventDefault();
      follow(Number(node), e.key);
    } else if (e.key === "f") fit();
    else if (e.key === "+" || e.key === "=") zoomAt(size.value.width / 2, size.value.height / 2, 1.25);
    else if (e.key === "-") zoomAt(size.value.width / 2, size.value.height / 2, 0.8);
    else if (e.key === "Escape") select("");
  };
  /** A node that has the focus, or is chosen, is on the screen, and not below the inspector. */
  const reveal = (n: DiagramNode) => {
    const { x, y, zoom } = camera.peek();
    const left = x + n.x * zoom;
    const top = y + n.y * zoom;
    const box = canvas.current!.getBoundingClientRect();
    const sheet = document.querySelector("aside")?.getBoundingClientRect();
    const height = sheet && sheet.left < box.right ? sheet.top - box.top : box.height;
    const dx = Math.max(0, 16 - left) - Math.max(0, left + n.width * zoom - box.width + 16);
    const dy = Math.max(0, 56 - top) - Math.max(0, top + n.height * zoom - height + 16);
    if (dx || dy) {
      touched.current = true;
      camera.value = { zoom, x: x + dx, y: y + dy };
    }
  };
  useEffect(() => {
    const n = d.value?.nodes[chosen.value];
    if (n) reveal(n);
  }, [selected, d.value, size.value]);

  // The elements do not change with the numbers, of which there are new ones each second.
  const nodes = d.value?.nodes ?? [];
  const busy = useComputed(() => d.value?.nodes.some((n) => rows.value.get(keyOf(n.kind, n.namespace, n.path))?.packets) ?? false);
  return (
    <section class="flow" onKeyDown={onKey}>
      <div class="picture" onPointerDown={(e) => (e.currentTarget.setPointerCapture(e.pointerId), pointers.current.set(e.pointerId, place(e)))} onPointerMove={onMove} onPointerUp={(e) => pointers.current.delete(e.pointerId)} onPointerCancel={(e) => pointers.current.delete(e.pointerId)}>
        <canvas ref={canvas} aria-hidden="true" />
        <div ref={layer} class="layer" role="group" aria-label={t("graph")}>
          {nodes.map((n, i) => (
            <button
              key={n.id}
              data-node={i}
              class={n.open ? "frame" : undefined}
              aria-pressed={i === chosen.value}
              aria-label={n.name && n.name !== n.kind ? `${n.name}, ${n.kind}` : n.kind}
              style={{ left: n.x + "px", top: n.y + "px", width: n.width + "px", height: (n.open ? 28 : n.height) + "px" }}
              onPointerDown={(e) => e.stopPropagation()}
              onClick={() => select(i === chosen.value ? "" : n.id)}
              onFocus={(e) => {
                e.currentTarget.setAttribute("aria-description", say(n));
                if (e.currentTarget.matches(":focus-visible")) reveal(n);
              }}
            />
          ))}
        </div>
        {graph.value && nodes.length === 0 ? (
          <div class="empty">
            <p>{graph.value.generation ? t("noNodes", namespace) : t("noNodesYet")}</p>
            <p class="muted">{t("noNodesHint")}</p>
          </div>
        ) : null}
        {nodes.length > 0 && !busy.value ? <p class="note">{t("noTraffic")}<First d={d.value!} /></p> : null}
        <div class="tools">
          <Find nodes={nodes} select={select} />
          {process ? <button onPointerDown={(e) => e.stopPropagation()} onClick={() => open("")}>{t("hidePath")}</button> : null}
          <button onPointerDown={(e) => e.stopPropagation()} onClick={fit}>{t("fit")}</button>
        </div>
      </div>
      {chosen.value >= 0 ? <Inspector d={d.value!} node={chosen.value} select={select} edit={edit} /> : null}
    </section>
  );
}

/** The command for the first route of a listener. */
function First({ d }: { d: Diagram }) {
  const command = useSignal("");
  useEffect(() => {
    const at = d.nodes.findIndex((n) => n.kind === "listener");
    const router = d.links.map((l) => (l.from === at ? d.nodes[l.to]! : null)).find((n) => n?.kind === "router");
    const ask = async (n: DiagramNode | null | undefined) => (n ? (await get<NodeDetail>("/api/v1/nodes/" + encodeURIComponent(n.id))).settings : []);
    void Promise.all([ask(d.nodes[at]), ask(router)]).then(([listener, routes]) => {
      const port = listener.find((s) => s.path === "port")?.text;
      const index = routes.findIndex((s) => /^routes\[\d+\]\.method$/.test(s.path) && s.text === '"GET"');
      const path = index < 0 ? "/" : JSON.parse(routes.slice(index).find((s) => s.path.endsWith(".path"))?.text ?? '"/"');
      command.value = port && port !== "0" ? `curl -i localhost:${port}${path}` : "";
    }, () => undefined); // the words without the command remain
  }, [d]);
  return command.value ? <> {t("tryIt")} <code>{plain(command.value)}</code></> : null;
}

/** The nodes and links of the diagram that a process has passed; null for no process. */
function usePath(d: ReadonlySignal<Diagram | null>, process: string): ReadonlySignal<Path | null> {
  const answer = useSignal<Timeline | null>(null);
  useEffect(() => {
    answer.value = null;
    if (process) get<Timeline>("/api/v1/processes/" + encodeURIComponent(process)).then((a) => (answer.value = a), () => undefined); // one that is forgotten has no path
  }, [process]);
  return useComputed(() => {
    const a = answer.value;
    if (!a || !d.value) return null;
    const index = new Map(d.value.nodes.map((n, i) => [n.id, i]));
    const id = (s: Span) => (s.parent >= 0 ? a.packets[s.parent]!.node.id : a.process.trigger.id);
    const hops = new Set(a.packets.map((s) => `${index.get(id(s))} ${s.out} ${index.get(s.node.id)} ${s.in}`));
    const links = new Set(d.value.links.flatMap((l, i) => (hops.has(`${l.from} ${l.out_port} ${l.to} ${l.in_port}`) ? [i] : [])));
    const nodes = new Set([a.process.trigger.id, ...a.packets.map((s) => s.node.id)].flatMap((id) => index.get(id) ?? []));
    return { links, nodes };
  });
}

/** What a screen reader says of a node after its name. */
function say(n: DiagramNode): string {
  const row = rows.peek().get(keyOf(n.kind, n.namespace, n.path));
  if (!row) return "";
  return `${rate(row.rate)} ${t("rate")}` + (row.p99 ? `, ${t("p99")} ${duration(row.p99)}` : "") + (row.errors ? `, ${count(row.errors)} ${t("errors")}` : "");
}

/** The nearest node above or below one. */
function beside(d: Diagram, from: number, below: boolean): number | undefined {
  const at = d.nodes[from]!;
  let best: number | undefined;
  let least = Infinity;
  d.nodes.forEach((n, i) => {
    const dy = below ? n.y - at.y : at.y - n.y;
    const distance = dy + 2 * Math.abs(n.x - at.x);
    if (i !== from && dy > 0 && distance < least) [best, least] = [i, distance];
  });
  return best;
}

function Find({ nodes, select }: { nodes: DiagramNode[]; select: (id: string) => void }) {
  const onInput = (text: string) => {
    const found = nodes.find((n) => (n.path || n.kind) === text) ?? nodes.find((n) => text && (n.path || n.kind).includes(text));
    select(found ? found.id : "");
  };
  return (
    <>
      <input type="search" list="names" placeholder={t("find") + "  /"} aria-label={t("find")} onPointerDown={(e) => e.stopPropagation()} onKeyDown={(e) => e.stopPropagation()} onChange={(e) => onInput(e.currentTarget.value)} />
      <datalist id="names">{nodes.map((n) => <option key={n.id} value={n.path || n.kind} />)}</datalist>
    </>
  );
}
