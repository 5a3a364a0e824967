package node

import "strings"

// A Page is what the reference says of a kind, and its example.
type Page struct {
	Doc     string // Markdown; may be empty
	Example string // a YAML document that loads as it stands
}

// ReadPage returns the page of a Markdown file: its last block of YAML is the example, and all
// before that is the text. Kinds keep such a file next to their code, and embed it.
func ReadPage(file string) Page {
	const begin, end = "```yaml\n", "```"
	i := strings.LastIndex(file, begin)
	if i < 0 {
		return Page{Doc: strings.TrimSpace(file)}
	}
	example, _, _ := strings.Cut(file[i+len(begin):], end)
	return Page{strings.TrimSpace(file[:i]), example}
}
