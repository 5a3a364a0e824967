package cel

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocs keeps the tables of docs/expressions.md equal to the environment.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(page), "## Functions")
	tables, _, _ = strings.Cut(tables, "## Limits")
	documented := map[string]string{} // cost by name
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`"+`.*?) \|.*\| (\w+) \|$`).FindAllStringSubmatch(tables, -1) {
		for _, name := range strings.Split(row[1], ", ") {
			name = strings.Trim(name, "`")
			if documented[name] != "" {
				t.Errorf("%s is documented twice", name)
			}
			documented[name] = row[2]
		}
	}

	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	offered := map[string]string{}
	for name := range l.env.Functions() {
		if strings.ContainsAny(name, "@_") || name == "in" {
			continue // operators, and what only macros call
		}
		switch w := l.works[name]; {
		case w.free():
			offered[name] = "constant"
		case w.linear:
			offered[name] = "size"
		default:
			offered[name] = "own"
		}
	}
	namespaces := map[string]string{"bind": "cel.bind", "greatest": "math.greatest", "least": "math.least"}
	for _, m := range l.env.Macros() {
		name := m.Function()
		if macros[name] == "" {
			t.Errorf("the macro %s has no hint in macros", name)
		}
		if full := namespaces[name]; full != "" {
			name = full
		}
		offered[name] = "macro"
	}
	for name, cost := range offered {
		if documented[name] != cost {
			t.Errorf("%s: docs/expressions.md says %q, want %q", name, documented[name], cost)
		}
	}
	for name := range documented {
		if offered[name] == "" {
			t.Errorf("%s is documented, but does not exist", name)
		}
	}
}
