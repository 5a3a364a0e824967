package reference

import (
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/node"
)

const kindsIntro = `# Kinds

What ` + "`uniflow list`" + ` lists and ` + "`uniflow describe KIND`" + ` describes. [Workflows](../workflows.md) has what all kinds have in common:
` + "`id`, `name`, `namespace`, `annotations`, `env` and `ports`" + `, and the ports %s that every node has.

| kind | what it does |
| --- | --- |
`

// Kinds is the page of all kinds, by purpose. It fails if a kind is in none of the purposes.
func Kinds(defs []*node.Def) (string, error) {
	purposes := purposes()
	groups, err := byPurpose(purposes, defs)
	if err != nil {
		return "", err
	}
	b := new(strings.Builder)
	b.WriteString(Generated + fmt.Sprintf(kindsIntro, enumerate(lifecycle.Names())))
	for i, p := range purposes {
		fmt.Fprintf(b, "| **[%s](#%s)** | |\n", p.title, anchor(p.title))
		for _, def := range groups[i] {
			fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", def.Kind, def.Kind, cell(def.Summary))
		}
	}
	for i, p := range purposes {
		fmt.Fprintf(b, "\n## %s\n\n%s\n", p.title, p.intro)
		var sections []section
		for _, def := range groups[i] {
			sections = append(sections, newSection(def))
		}
		var shared section
		if p.alike {
			shared = common(sections)
			fmt.Fprintf(b, "\nAll of them have the following; what is said of a kind is in addition to it.\n%s", shared)
		}
		for j, def := range groups[i] {
			fmt.Fprintf(b, "\n### %s\n%s%s", def.Kind, sections[j].without(shared), example(def))
		}
	}
	return b.String(), nil
}

// anchor is what a heading is linked by.
func anchor(title string) string {
	return strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(title, ",", "")), " ", "-")
}

// enumerate lists words of code.
func enumerate(words []string) string {
	last := len(words) - 1
	return "`" + strings.Join(words[:last], "`, `") + "` and `" + words[last] + "`"
}

// Page is the page of one kind.
func Page(def *node.Def) string {
	return fmt.Sprintf("## %s\n%s%s", def.Kind, newSection(def), example(def))
}

func example(def *node.Def) string {
	if def.Example == "" {
		return ""
	}
	return "\n" + fence("yaml", def.Example)
}

func portRows(direction string, ports []Port) (rows []string) {
	for _, p := range ports {
		name := "`" + p.Name + "`"
		if p.Indexed {
			name = "`" + p.Name + "[0]`, `" + p.Name + "[1]`, …"
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", name, direction, cell(p.Doc)))
	}
	return rows
}

// cell makes text fit into a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(s), "|", `\|`), "\n", " ")
}

// Explain is the explanation of a code, for terminals.
func Explain(e diag.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n%s", e.Code, e.Title, wrap(e.Explanation, ""))
	if e.Bad != "" {
		b.WriteString("\nBad\n" + indented(strings.TrimRight(e.Bad, "\n")+"\n", "  "))
	}
	if e.Good != "" {
		b.WriteString("\nGood\n" + indented(strings.TrimRight(e.Good, "\n")+"\n", "  "))
	}
	return b.String()
}

const codesIntro = `# Codes

Every finding has a code whose meaning never changes. ` + "`uniflow explain CODE`" + ` prints the entries of this page.

| codes | found when |
| --- | --- |
| F1… | a document is read |
| F2… | the fields of a node are checked |
| F3… | nodes are linked |
| F4… | code is compiled |
| F5… | a document is checked for what is allowed but probably not meant: warnings |
| F7… | a process runs |
| F9… | the engine itself is at fault |

`

// Codes is the page of all codes, in the order given.
func Codes(entries []diag.Entry) string {
	var b strings.Builder
	b.WriteString(Generated + codesIntro + "| code | |\n| --- | --- |\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", e.Code, strings.ToLower(string(e.Code)), cell(e.Title))
	}
	for _, e := range entries {
		fmt.Fprintf(&b, "\n## %s\n\n**%s%s.** %s\n", e.Code, strings.ToUpper(e.Title[:1]), e.Title[1:], strings.TrimSpace(e.Explanation))
		if e.Bad != "" {
			b.WriteString("\nBad:\n\n" + fence("yaml", e.Bad))
		}
		if e.Good != "" {
			b.WriteString("\nGood:\n\n" + fence("yaml", e.Good))
		}
	}
	return b.String()
}
