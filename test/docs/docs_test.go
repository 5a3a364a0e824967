// Package docs holds the documentation to its word: links lead somewhere, workflows are
// sound, commands print what the pages show.
package docs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/site"
	"github.com/uniflow-labs/uniflow/lang/javascript"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// worker is what the test binary is called when it is to be a process of isolated scripts.
const worker = "script-worker"

func TestMain(m *testing.M) {
	if os.Args[0] == worker {
		if err := javascript.Serve(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

// A page is one Markdown file.
type page struct {
	path string // from the root
	text string
}

// block matches a fenced block: its language and its text.
var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")

func pages(t *testing.T) []page {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
	var all []page
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "node_modules" {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || strings.HasPrefix(path, "nodes/") || strings.HasPrefix(path, "internal/cli/reference/") { // parts of the reference
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, page{path, string(data)})
		return err
	})
	if err != nil || len(all) < 5 {
		t.Fatalf("found %d pages, error %v", len(all), err)
	}
	return all
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	for _, p := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(block.ReplaceAllString(p.text, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := p.path
			if target != "" {
				path = filepath.Join(filepath.Dir(p.path), target)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				if info, statErr := os.Stat(path); statErr != nil || !info.IsDir() {
					t.Errorf("%s: link to %s: %v", p.path, m[1], err)
				}
				continue
			}
			if anchor != "" && !hasHeading(string(data), anchor) {
				t.Errorf("%s: link to %s: no such heading", p.path, m[1])
			}
		}
	}
}

func hasHeading(text, anchor string) bool {
	for _, line := range strings.Split(text, "\n") {
		if title, ok := strings.CutPrefix(line, "#"); ok && site.Slug(strings.TrimLeft(title, "#")) == anchor {
			return true
		}
	}
	return false
}

// TestWorkflows checks the YAML blocks that hold specs. The reference of the
// codes shows bad ones on purpose; its own test covers it.
func TestWorkflows(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		if strings.HasSuffix(p.path, "codes.md") || isKorean(p.path) { // TestKorean: its blocks are those of the English page
			continue
		}
		for _, m := range block.FindAllStringSubmatch(p.text, -1) {
			if m[1] != "yaml" || !strings.Contains(m[2], "kind:") {
				continue
			}
			found++
			engine := newEngine(t)
			list := engine.Check(uniflow.Source{Documents: []spec.Document{{File: p.path, Data: []byte(m[2])}}})
			list = slices.DeleteFunc(list, func(d *diag.Diagnostic) bool { // their files are the reader's; examples of kinds stand alone, and have no variables
				noFile := d.Code == diag.CodeNoFile || d.Path == "module" && strings.HasSuffix(d.Msg, "no such file or directory")
				return noFile || (d.Code == diag.CodeUnlinked || d.Code == diag.CodeNoEffect || d.Code == diag.CodeTemplateKey) && strings.HasSuffix(p.path, "reference/kinds.md")
			})
			if len(list) > 0 {
				t.Errorf("%s:\n%s\n%s", p.path, m[2], list.Error())
			}
		}
	}
	if found < 5 {
		t.Errorf("found only %d workflows", found)
	}
}

func newEngine(t *testing.T) *uniflow.Engine {
	t.Helper()
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs("", worker)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// TestCommands runs the console blocks: a command after "$ ", then what it
// prints, where "…" stands for anything on a line. The blocks of a page share a
// folder that has nothing but examples and docs at first. curl asks a server that
// serves the workflow of the page's last YAML block before it that has a listener,
// or of examples/ping.yaml.
func TestCommands(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		if isKorean(p.path) { // TestKorean: its blocks are those of the English page
			continue
		}
		t.Run(p.path, func(t *testing.T) {
			enterFolder(t)
			for _, at := range block.FindAllStringSubmatchIndex(p.text, -1) {
				if p.text[at[2]:at[3]] != "console" {
					continue
				}
				for _, c := range strings.Split("\n"+p.text[at[4]:at[5]], "\n$ ")[1:] {
					command, want, _ := strings.Cut(c, "\n")
					found++
					got := execute(t, p.text[:at[0]], command)
					if !alike(strings.TrimSpace(got), strings.TrimSpace(want)) {
						t.Errorf("%s: $ %s\ngot:\n%s\nwant:\n%s", p.path, command, got, want)
					}
				}
			}
		})
	}
	if found < 2 {
		t.Errorf("found only %d commands", found)
	}
}

// enterFolder makes a folder with the examples and the pages the working folder,
// so that what commands write goes away with it.
func enterFolder(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"examples", "docs"} {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
}

// alike reports whether text is as a page shows it, where "…" stands for anything on a
// line.
func alike(got, want string) bool {
	parts := strings.Split(want, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}

// word matches a word of a command line, in single quotes or without.
var word = regexp.MustCompile(`'([^']*)'|(\S+)`)

func execute(t *testing.T, before, command string) string {
	t.Helper()
	var words []string
	for _, m := range word.FindAllStringSubmatch(command, -1) {
		words = append(words, m[1]+m[2])
	}
	switch words[0] {
	case "uniflow":
		var out bytes.Buffer
		system := app.System()
		system.Stdin, system.Stdout, system.Stderr = strings.NewReader(""), &out, &out
		cli.Main(t.Context(), words[1:], system)
		return out.String()
	case "cat":
		data, err := os.ReadFile(words[1])
		if err != nil {
			t.Error(err)
		}
		return string(data)
	case "curl":
		return curl(t, before, words[1], words[2:]...)
	}
	t.Errorf("do not know how to run %q", command)
	return ""
}

// curl sends a request to a server of the workflow that the page shows. The options are
// -X METHOD, --json DATA, -H HEADER, and -w %{http_code} for the status after the body.
func curl(t *testing.T, before, url string, options ...string) string {
	t.Helper()
	data, err := os.ReadFile("examples/ping.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range block.FindAllStringSubmatch(before, -1) {
		if m[1] == "yaml" && strings.Contains(m[2], "kind: listener") {
			data = []byte(m[2])
		}
	}
	port := strconv.Itoa(freeport.Port(t)) // the examples have theirs at 8000, perhaps now
	data = bytes.ReplaceAll(data, []byte("8000"), []byte(port))
	url = strings.Replace(url, "8000", port, 1)
	engine := newEngine(t)
	list, err := engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "page", Data: data}}})
	if err != nil || list.HasErrors() {
		t.Fatal(err, list)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	status := false
	for i := 0; i+1 < len(options); i += 2 {
		switch name, text, _ := strings.Cut(options[i+1], ": "); options[i] {
		case "-H":
			req.Header.Set(name, text)
		case "-X":
			req.Method = options[i+1]
		case "-w":
			status = true
		case "--json":
			req.Method, req.Body = http.MethodPost, io.NopCloser(strings.NewReader(options[i+1]))
			req.Header.Set("Content-Type", "application/json")
		default:
			t.Errorf("do not know the option %q of curl", options[i])
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if status {
		body = fmt.Append(body, resp.StatusCode)
	}
	return string(body)
}

// TestTargets checks that every make target of the pages exists.
func TestTargets(t *testing.T) {
	all := pages(t)
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile("(?:^|`)make ([a-z-]+)")
	for _, p := range all {
		for _, m := range target.FindAllStringSubmatch(p.text, -1) {
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: make %s: no such target", p.path, m[1])
			}
		}
	}
}

// TestExamples checks that the page of examples shows each.
func TestExamples(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	page, err := os.ReadFile("docs/examples.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.Contains(string(page), "(../"+file+")") {
			t.Errorf("docs/examples.md does not show %s", file)
		}
	}
}
