package arch

import (
	"fmt"
	"go/doc"
	"slices"
	"strings"
)

// Map returns the map of the packages below a folder, the root of the repository, as
// Markdown: the layers from the top down, what each package is for in the words of its
// comment, and how large each part of the code is.
func Map(root string) (string, error) {
	files, err := read(root)
	if err != nil {
		return "", err
	}
	purposes := make(map[string]string) // by package
	lines := make([]int, len(parts))
	for _, f := range files {
		if f.test {
			continue
		}
		lines[partOf(f.pkg)] += f.lines()
		if purposes[f.pkg] == "" {
			purposes[f.pkg] = purpose(f)
		}
	}
	rows := make([][]string, len(layers)) // packages by layer
	for pkg := range purposes {
		level, _, ok := place(pkg)
		if !ok {
			return "", fmt.Errorf("package %q has no layer: give it one in internal/arch/layers.go", pkg)
		}
		rows[level] = append(rows[level], pkg)
	}
	var b strings.Builder
	for level := range slices.Backward(layers) {
		fmt.Fprintf(&b, "| **%s** | |\n", layers[level].title)
		if level == len(layers)-1 {
			b.WriteString("| --- | --- |\n")
		}
		slices.Sort(rows[level])
		for _, pkg := range rows[level] {
			name := pkg
			if name == "" {
				name = "uniflow"
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, purposes[pkg])
		}
	}
	b.WriteString("\nHow large each part is, in thousands of lines of Go without tests:\n\n| part | | |\n| --- | --- | --- |\n")
	for i, p := range parts {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", p.title, (lines[i]+500)/1000, p.why)
	}
	return b.String(), nil
}

// purpose returns the first sentence of a package's comment, without the package's name.
func purpose(f file) string {
	if f.ast.Doc == nil {
		return ""
	}
	text := new(doc.Package).Synopsis(f.ast.Doc.Text())
	for _, start := range []string{"Package ", "Command "} {
		if rest, ok := strings.CutPrefix(text, start); ok {
			_, text, _ = strings.Cut(rest, " ")
		}
	}
	return strings.NewReplacer("|", `\|`, "[", "", "]", "").Replace(strings.TrimSuffix(text, "."))
}
