// The picture of the flow. Colours and fonts come from the style sheet.

import type { Diagram, DiagramLink, DiagramNode } from "./api.gen";
import { keyOf, type Row } from "./live";
import { duration, plain, rate } from "./text";

export interface Camera {
  x: number;
  y: number;
  zoom: number;
}

/** The indexes of the nodes and links that a process has passed. */
export interface Path {
  nodes: ReadonlySet<number>;
  links: ReadonlySet<number>;
}

interface Size {
  width: number;
  height: number;
}

const margin = 32;
const errorPort = -1;
const beside = 0.3; // how much is seen of what lies beside the path of a process

/** Where all of the picture is seen, at most as large as it was made, and at least at some zoom. */
export function fitted(d: Diagram, size: Size, least = 0): Camera {
  const zoom = Math.max(least, Math.min(1, (size.width - 2 * margin) / Math.max(1, d.width), (size.height - 3 * margin) / Math.max(1, d.height)));
  return { zoom, x: Math.max(margin, (size.width - d.width * zoom) / 2), y: Math.max(margin, (size.height - d.height * zoom) / 2) };
}

const signs: Record<string, Path2D> = {
  trigger: new Path2D("M4 2.5 L13 8 L4 13.5 Z"),
  net: new Path2D("M2.5 5.5 H13 M10 2.5 L13 5.5 L10 8.5 M13.5 10.5 H3 M6 7.5 L3 10.5 L6 13.5"),
  code: new Path2D("M5.5 3.5 L1.5 8 L5.5 12.5 M10.5 3.5 L14.5 8 L10.5 12.5"),
  control: new Path2D("M8 1.5 L14.5 8 L8 14.5 L1.5 8 Z"),
};

/** Below this zoom words are not read: boxes alone are drawn. */
export const wordsFrom = 0.5;

export function paint(canvas: HTMLCanvasElement, d: Diagram, camera: Camera, size: Size, rows: ReadonlyMap<string, Row>, chosen: number, path: Path | null): void {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(size.width * ratio) || canvas.height !== Math.round(size.height * ratio)) {
    canvas.width = Math.round(size.width * ratio);
    canvas.height = Math.round(size.height * ratio);
  }
  const c = canvas.getContext("2d")!;
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue("--" + name).trim();
  const colours = Object.fromEntries(["bg", "surface", "text", "muted", "edge", "line", "frame", "accent", "ok", "warm", "hot", "trigger", "net", "code", "control"].map((name) => [name, colour(name)])) as Record<string, string>;
  const font = style.fontFamily;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, size.width, size.height);
  c.translate(camera.x, camera.y);
  c.scale(camera.zoom, camera.zoom);
  const seen = { left: -camera.x / camera.zoom, top: -camera.y / camera.zoom, right: (size.width - camera.x) / camera.zoom, bottom: (size.height - camera.y) / camera.zoom };
  const visible = (n: DiagramNode) => n.x < seen.right && n.x + n.width > seen.left && n.y < seen.bottom && n.y + n.height > seen.top;
  const row = (n: DiagramNode) => rows.get(keyOf(n.kind, n.namespace, n.path));
  const words = camera.zoom >= wordsFrom;

  for (const [i, n] of d.nodes.entries()) {
    if (!n.open || !visible(n)) continue;
    box(c, n, colours.frame!, i === chosen ? colours.accent! : colours.line!, i === chosen ? 2 : 1);
    if (words) text(c, `11px ${font}`, colours.muted!, title(n), n.x + 12, n.y + 20, n.width - 24);
  }
  // What comes to a node by its only link is what the link carries, exactly. Of several, what was sent on the port is an estimate.
  const into = d.nodes.map(() => 0);
  for (const l of d.links) into[l.to]!++;
  const rateOf = (l: DiagramLink): number => (into[l.to] === 1 ? row(d.nodes[l.to]!)?.rate : row(d.nodes[l.from]!)?.sent?.at(l.out_port)) ?? 0;
  for (const [i, l] of d.links.entries()) {
    c.globalAlpha = path && !path.links.has(i) ? beside : 1;
    link(c, l, l.from === chosen || l.to === chosen || !!path?.links.has(i), rateOf(l), colours);
  }
  for (const [i, n] of d.nodes.entries()) {
    c.globalAlpha = path && !path.nodes.has(i) ? beside : 1;
    if (!n.open && visible(n)) node(c, n, row(n), i === chosen, words, font, colours);
  }
  c.globalAlpha = 1;
  if (!words) return;
  for (const l of d.links) {
    const passes = rateOf(l);
    const [x, y] = [l.path[0]!, l.path[1]!];
    const name = l.out === "out" ? "" : l.out;
    const label = [name, passes > 0 && d.links.some((o) => o !== l && (o.from === l.from || o.to === l.to)) ? rate(passes) + "/s" : ""].filter(Boolean).join("  ");
    if (label) halo(c, `10px ${font}`, colours.muted!, colours.bg!, label, x + 6, y - 4);
  }
}

function title(n: DiagramNode): string {
  return n.name && n.name !== n.kind ? `${n.name} · ${n.kind}` : n.kind;
}

function box(c: CanvasRenderingContext2D, n: DiagramNode, fill: string, stroke: string, width: number): void {
  c.beginPath();
  c.roundRect(n.x, n.y, n.width, n.height, 6);
  c.fillStyle = fill;
  c.fill();
  c.lineWidth = width;
  c.strokeStyle = stroke;
  c.stroke();
}

function text(c: CanvasRenderingContext2D, font: string, colour: string, words: string, x: number, y: number, width: number, align: CanvasTextAlign = "left"): void {
  c.font = font;
  c.fillStyle = colour;
  c.textAlign = align;
  c.fillText(fit(c, words, width), x, y);
}

/** Texts that were made to fit: to measure them takes longer than to draw them. */
const fits = new Map<string, string>();
const maxFits = 5000;

function fit(c: CanvasRenderingContext2D, words: string, width: number): string {
  const key = `${c.font}\n${width}\n${words}`;
  let cut = fits.get(key);
  if (cut === undefined) {
    cut = plain(words);
    while (cut.length > 1 && c.measureText(cut).width > width) cut = cut.slice(0, cut.endsWith("…") ? -2 : -1) + "…";
    if (fits.size >= maxFits) fits.clear();
    fits.set(key, cut);
  }
  return cut;
}

function halo(c: CanvasRenderingContext2D, font: string, colour: string, around: string, words: string, x: number, y: number): void {
  c.font = font;
  c.textAlign = "left";
  c.lineJoin = "round";
  c.lineWidth = 3;
  c.strokeStyle = around;
  c.strokeText(plain(words), x, y);
  c.fillStyle = colour;
  c.fillText(plain(words), x, y);
}

function link(c: CanvasRenderingContext2D, l: DiagramLink, chosen: boolean, passes: number, colours: Record<string, string>): void {
  const p = l.path;
  const failed = l.out_port === errorPort;
  const colour = chosen ? colours.accent! : failed ? colours.hot! : colours.edge!;
  c.beginPath();
  c.moveTo(p[0]!, p[1]!);
  for (let i = 2; i + 5 < p.length; i += 6) c.bezierCurveTo(p[i]!, p[i + 1]!, p[i + 2]!, p[i + 3]!, p[i + 4]!, p[i + 5]!);
  c.lineWidth = passes > 0 ? Math.min(6, 1.5 + Math.log10(1 + passes)) : 1.5;
  c.strokeStyle = colour;
  c.setLineDash(failed ? [4, 3] : l.out_port < errorPort ? [1.5, 3] : []);
  c.stroke();
  c.setLineDash([]);
  const [x, y] = [p[p.length - 2]!, p[p.length - 1]!];
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(x - 7, y - 3.5);
  c.lineTo(x - 7, y + 3.5);
  c.fillStyle = colour;
  c.fill();
}

function node(c: CanvasRenderingContext2D, n: DiagramNode, row: Row | undefined, chosen: boolean, words: boolean, font: string, colours: Record<string, string>): void {
  if (n.subgraph) box(c, { ...n, x: n.x + 4, y: n.y + 4, width: n.width - 4 }, colours.surface!, colours.line!, 1);
  box(c, n, colours.surface!, chosen ? colours.accent! : row && row.failing > 0 ? colours.hot! : colours.line!, chosen ? 2 : 1);
  const middle = n.y + n.height / 2;
  c.save();
  c.translate(n.x + 12, middle - 8);
  c.strokeStyle = colours[n.group] ?? colours.muted!;
  c.lineWidth = 1.5;
  c.lineCap = c.lineJoin = "round";
  c.stroke(signs[n.group] ?? signs.control!);
  c.restore();
  if (row && row.load > 0) { // how much of a processor its code takes
    const share = Math.min(1, row.load);
    c.fillStyle = share <= 0.6 ? colours.ok! : share <= 0.85 ? colours.warm! : colours.hot!;
    c.fillRect(n.x + 3, n.y + n.height - 3, (n.width - 6) * share, 2);
  }
  if (!words) return;
  const right = n.x + n.width - 10;
  const busy = row && row.packets > 0;
  const figures = busy ? rate(row.rate) + "/s" : "";
  const below = busy ? duration(row.p99) : "";
  const named = !!n.name && n.name !== n.kind;
  const wide = n.width - 48;
  if (figures) text(c, `500 11px ${font}`, row!.rate > 0 ? colours.text! : colours.muted!, figures, right, middle - 3, 64, "right");
  if (below) text(c, `11px ${font}`, colours.muted!, below, right, middle + 13, 64, "right");
  text(c, `600 13px ${font}`, colours.text!, named ? n.name! : n.kind, n.x + 38, named ? middle - 3 : middle + 4.5, wide - (figures ? 58 : 0));
  if (named) text(c, `11px ${font}`, colours.muted!, n.kind, n.x + 38, middle + 13, wide - (below ? 54 : 0));
  if (row && row.errors > 0) halo(c, `500 10px ${font}`, colours.hot!, colours.bg!, "▲ " + rate(row.errors), n.x + 6, n.y - 4);
}
