import type { Finding } from "./api.gen";
import { plain } from "./text";

/** What is wrong with documents, or what failed in them, each with its place. */
export function Findings({ list, go }: { list: Finding[]; go: (file: string, line: number) => void }) {
  return (
    <ul class="findings">
      {list.map((f, i) => (
        <li key={i}>
          <span class={f.severity === "warning" ? "warm" : "hot"}>{f.severity === "warning" ? "●" : "▲"}</span>{" "}
          {f.file && f.line ? <button class="link" onClick={() => go(f.file!, f.line!)}>{plain(f.file.split("/").pop()!)}:{f.line}</button> : null}{" "}
          {plain(f.path ? f.path + ": " : "")}{plain(f.message)}{f.code ? ` [${f.code}]` : ""}{f.hint ? <div class="muted">{plain(f.hint)}</div> : null}
        </li>
      ))}
    </ul>
  );
}
