// The Markdown that texts of kinds use, as elements: paragraphs, lists, code, emphasis, links as text.

import type { ComponentChildren } from "preact";

export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{blocks(text)}</div>;
}

export function blocks(text: string): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; ) {
    const line = lines[i]!;
    if (line.startsWith("```")) {
      const end = lines.indexOf("```", i + 1);
      const last = end < 0 ? lines.length : end;
      out.push(<pre><code>{lines.slice(i + 1, last).join("\n")}</code></pre>);
      i = last + 1;
    } else if (line.startsWith("|")) {
      const from = i;
      while (i < lines.length && lines[i]!.startsWith("|")) i++;
      const cells = lines.slice(from, i).map((l) => l.slice(1, -1).split(/(?<!\\)\|/).map((cell) => cell.trim()));
      out.push(
        <table>
          <thead><tr>{cells[0]!.map((cell) => <th>{spans(cell)}</th>)}</tr></thead>
          <tbody>{cells.slice(2).map((row) => <tr>{row.map((cell) => <td>{spans(cell)}</td>)}</tr>)}</tbody>
        </table>,
      );
    } else if (/^\s*[-*] /.test(line)) {
      const items: string[] = [];
      for (; i < lines.length && lines[i]!.trim() !== ""; i++) {
        if (/^\s*[-*] /.test(lines[i]!)) items.push(lines[i]!.replace(/^\s*[-*] /, ""));
        else items[items.length - 1] += " " + lines[i]!.trim();
      }
      out.push(<ul>{items.map((item) => <li>{spans(item)}</li>)}</ul>);
    } else if (line.startsWith("#")) {
      out.push(<h4>{spans(line.replace(/^#+ */, ""))}</h4>);
      i++;
    } else if (line.trim() === "") {
      i++;
    } else {
      const from = i;
      while (i < lines.length && lines[i]!.trim() !== "" && !/^(```|\||#|\s*[-*] )/.test(lines[i]!)) i++;
      if (i === from) i++; // a line that begins as none of the above
      out.push(<p>{spans(lines.slice(from, i).join(" "))}</p>);
    }
  }
  return out;
}

function spans(text: string): ComponentChildren[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*|\[[^\]]+\]\([^)]+\))/).map((part) => {
    if (part.startsWith("`") && part.length > 2) return <code>{part.slice(1, -1)}</code>;
    if (part.startsWith("**") && part.length > 4) return <strong>{part.slice(2, -2)}</strong>;
    if (part.startsWith("*") && part.length > 2) return <em>{part.slice(1, -1)}</em>;
    const link = /^\[([^\]]+)\]\([^)]+\)$/.exec(part);
    return link ? link[1] : part;
  });
}
