package docs

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/site"
)

// translated are the pages that have a Korean page next to them: of x.md, x.ko.md.
var translated = []string{"README.md", "docs/batch.md", "docs/chat.md", "docs/streams.md", "docs/trail.md", "docs/workflows.md"}

var update = flag.Bool("update", false, "copy the code blocks of English pages to the Korean ones")

// TestKorean holds the Korean pages to the English ones: what they say in code and links is the same.
func TestKorean(t *testing.T) {
	texts := map[string]string{}
	for _, p := range pages(t) {
		texts[p.path] = p.text
	}
	for _, name := range translated {
		if _, ok := texts[korean(name)]; !ok {
			t.Errorf("%s has no Korean page %s", name, korean(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !isKorean(name) {
			continue
		}
		if _, ok := texts[english(name)]; !ok {
			t.Errorf("%s: there is no %s", name, english(name))
			continue
		}
		if *update {
			texts[name] = copyBlocks(texts[english(name)], texts[name])
			if err := os.WriteFile(name, []byte(texts[name]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range differences(texts, english(name)) {
			t.Error(d)
		}
	}
}

// copyBlocks returns the second text with the code blocks of the first one, if it has as many.
func copyBlocks(from, to string) string {
	blocks := block.FindAllString(from, -1)
	if len(blocks) != len(block.FindAllString(to, -1)) {
		return to
	}
	return block.ReplaceAllStringFunc(to, func(string) string {
		first := blocks[0]
		blocks = blocks[1:]
		return first
	})
}

func isKorean(name string) bool { return strings.HasSuffix(name, ".ko.md") }

func korean(name string) string { return strings.TrimSuffix(name, ".md") + ".ko.md" }

// english returns the name of the English page of a page, or the name itself.
func english(name string) string {
	if base, ok := strings.CutSuffix(name, ".ko.md"); ok {
		return base + ".md"
	}
	return name
}

// A section is a heading and what is below it, up to the next one.
type section struct {
	title  string
	level  int
	blocks []string
	links  []string // to English pages, the anchors as numbers of headings
	code   []string // in back-ticks, each once, sorted
}

// span matches code in back-ticks.
var span = regexp.MustCompile("``[^`].*?``|`[^`]+`")

func sections(texts map[string]string, name string) []section {
	all := []section{{title: "the top"}}
	var prose, fenced strings.Builder
	inside := false
	end := func() {
		s := &all[len(all)-1]
		text := prose.String()
		prose.Reset()
		for _, code := range span.FindAllString(text, -1) {
			s.code = append(s.code, strings.Join(strings.Fields(code), " "))
		}
		slices.Sort(s.code)
		s.code = slices.Compact(s.code)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := canonical(texts, name, m[1])
			if target != name && target != english(name) { // from one language to the other
				s.links = append(s.links, target)
			}
		}
	}
	for _, line := range strings.SplitAfter(texts[name], "\n") {
		title := strings.TrimLeft(line, "#")
		switch fence := strings.HasPrefix(strings.TrimSpace(line), "```"); {
		case fence && !inside:
			inside = true
			fenced.WriteString(line)
		case inside:
			fenced.WriteString(line)
			if fence {
				s := &all[len(all)-1]
				s.blocks = append(s.blocks, fenced.String())
				fenced.Reset()
				inside = false
			}
		case strings.HasPrefix(title, " ") && title != line:
			end()
			all = append(all, section{title: strings.TrimSpace(title), level: len(line) - len(title)})
			prose.WriteString(title)
		default:
			prose.WriteString(line)
		}
	}
	end()
	return all
}

// canonical returns what a link is the same as in another language: the path of the English page from the root,
// and the number of the heading there.
func canonical(texts map[string]string, from, target string) string {
	if strings.Contains(target, "://") {
		return target
	}
	file, anchor, _ := strings.Cut(target, "#")
	path := from
	if file != "" {
		path = filepath.Join(filepath.Dir(from), file)
	}
	if anchor == "" {
		return english(path)
	}
	n := 0
	for line := range strings.Lines(block.ReplaceAllString(texts[path], "")) {
		if title, ok := strings.CutPrefix(line, "#"); ok {
			n++
			if site.Slug(strings.TrimLeft(title, "#")) == anchor {
				return fmt.Sprintf("%s, heading %d", english(path), n)
			}
		}
	}
	return english(path) + "#" + anchor // TestLinks reports it, unless it is not Markdown
}

// differences returns in what a page and its Korean page differ.
func differences(texts map[string]string, name string) []string {
	en, ko := sections(texts, name), sections(texts, korean(name))
	var list []string
	for i := range min(len(en), len(ko)) {
		e, k := en[i], ko[i]
		report := func(what, got, want string) {
			list = append(list, fmt.Sprintf("%s, %q, and %s, %q: %s differ\n%s: %s\n%s: %s",
				name, e.title, korean(name), k.title, what, name, want, korean(name), got))
		}
		if e.level != k.level {
			report("the levels of the headings", strings.Repeat("#", k.level), strings.Repeat("#", e.level))
			return list // what follows is shifted
		}
		compare(e.blocks, k.blocks, "code blocks", report)
		compare(e.links, k.links, "links", report)
		compare(e.code, k.code, "names in back-ticks", report)
	}
	if len(en) != len(ko) {
		list = append(list, fmt.Sprintf("%s has %d headings, %s has %d", name, len(en)-1, korean(name), len(ko)-1))
	}
	return list
}

// compare reports the first place where two lists differ.
func compare(want, got []string, what string, report func(what, got, want string)) {
	at := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return "nothing"
	}
	for i := range max(len(want), len(got)) {
		if at(want, i) != at(got, i) {
			report(what, at(got, i), at(want, i))
			return
		}
	}
}

// TestDifferences checks what TestKorean finds.
func TestDifferences(t *testing.T) {
	const en = "[한국어](a.ko.md)\n\n# Tea\n\nSee [cups](b.md#cups), `kind`.\n\n```sh\nmake run # serves\n```\n\n## Pots\n\nBack [up](#tea), to [x](x.yaml).\n"
	const ko = "[English](a.md)\n\n# 차\n\n[잔](b.ko.md#잔)의 `kind`입니다.\n\n```sh\nmake run # serves\n```\n\n## 주전자\n\n[위](#차), [x](x.yaml).\n"
	f := func(old, replacement, want string) {
		t.Helper()
		if !strings.Contains(ko, old) {
			t.Fatalf("the page has no %q", old)
		}
		got := differences(map[string]string{
			"a.md": en, "a.ko.md": strings.Replace(ko, old, replacement, 1), "b.md": "# B\n\n## Cups\n", "b.ko.md": "# 비\n\n## 잔\n",
		}, "a.md")
		if want == "" && len(got) == 0 {
			return
		}
		if len(got) != 1 || !strings.Contains(got[0], want) || want == "" {
			t.Errorf("%q for %q: %q, want one that has %q", replacement, old, got, want)
		}
	}
	if got := copyBlocks(en, strings.Replace(ko, "# serves", "# 실행", 1)); got != ko {
		t.Errorf("got %q, want the code blocks of the English page", got)
	}
	f("차", "차", "")
	f("b.ko.md#잔", "b.md#cups", "")
	f("b.ko.md#잔", "b.ko.md#비", `a.md, "Tea", and a.ko.md, "차": links differ`)
	f("#차", "#주전자", `a.md, "Pots", and a.ko.md, "주전자": links differ`)
	f(", [x](x.yaml)", "", "links differ\na.md: x.yaml\na.ko.md: nothing")
	f("[x](x.yaml)", "[x](x.yaml) [x](x.yaml)", "links differ")
	f("[위](#차), [x](x.yaml)", "[x](x.yaml), [위](#차)", "links differ")
	f("# serves", "# 실행", "code blocks differ")
	f("```sh\nmake run # serves\n```\n", "", "code blocks differ")
	f("`kind`", "`name`", "names in back-ticks differ")
	f("## 주전자", "### 주전자", "levels of the headings differ")
	f("## 주전자\n\n[위](#차), [x](x.yaml).\n", "", "a.md has 2 headings, a.ko.md has 1")
}
