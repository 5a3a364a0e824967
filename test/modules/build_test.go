package modules

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/internal/registry"
)

const markdown = module + "/kinds/markdown"

// uniflow runs a command line in this process, and returns its exit code and what it says.
func uniflow(args ...string) (code int, said string) {
	var out syncbuffer.Buffer
	m := apptest.Machine(&out, &out, nil)
	code = cli.Main(context.Background(), args, m)
	return code, out.String()
}

// TestBuild makes a program with the kinds of a module in a folder that is not part of the
// repository, and runs the tests of its workflow. Then it makes none of modules that cannot
// be used, and says why.
func TestBuild(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.CopyFS("markdown", os.DirFS(filepath.Join(root, "kinds", "markdown"))); err != nil {
		t.Fatal(err)
	}
	code, said := uniflow("build", "--source", root, "-o", "made", "--with", markdown+"=markdown")
	if code != app.ExitOK || !strings.Contains(said, "compiles foreign code into made, with all rights of the program:\n  "+markdown+" in "+dir) {
		t.Fatalf("got exit code %d: %s", code, said)
	}
	if got := run(t, dir, "./made", "describe", "markdown"); !strings.HasPrefix(got, "markdown: Turns Markdown into HTML.") {
		t.Errorf("describe: got %s", got)
	}
	if got := run(t, dir, "./made", "test", "markdown/flow.yaml", "markdown/tests.yaml"); !strings.HasPrefix(got, "PASS default/a page is answered") {
		t.Errorf("test: got %s", got)
	}
	if code, said := uniflow("check", "markdown/flow.yaml"); code != app.ExitFindings || !strings.Contains(said, registry.Elsewhere("markdown")) || !strings.Contains(said, markdown) {
		t.Errorf("check without the kind: got exit code %d: %s", code, said)
	}

	for name, source := range map[string]string{
		"none": "package none\n",
		"same": "package same\n\nfunc Defs() int { return 1 }\n",
		"part": "package main\n\nfunc main() {}\n",
	} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "go.mod"), "module example.com/"+name+"\n\ngo 1.26.0\n")
		write(t, filepath.Join(dir, name, name+".go"), source)
	}
	f := func(wantCode int, want string, args ...string) {
		t.Helper()
		code, said := uniflow(append([]string{"build", "-o", "bad"}, args...)...)
		if code != wantCode || !strings.Contains(said, want) {
			t.Errorf("%v: got exit code %d: %s\nwant %d: %s", args, code, said, wantCode, want)
		}
	}
	t.Setenv("GOPROXY", "off") // all that is used is there already
	const noDefs = "has no function Defs(stream.Options) []*node.Def: "
	f(app.ExitFailure, "example.com/none "+noDefs+"undefined: Defs", "--source", root, "--with", "example.com/none=none")
	f(app.ExitFailure, "example.com/same "+noDefs+"cannot use Defs (value of type func() int)", "--source", root, "--with", "example.com/same=same")
	f(app.ExitFailure, "example.com/part is a program, and cannot be part of another", "--source", root, "--with", "example.com/part=part")
	f(app.ExitFailure, `there is no command "no-go"`, "--source", root, "--with", "example.com/none=none", "--go", "no-go")
	f(app.ExitFailure, "the checkout of --source has it as a module: write --with "+markdown+"="+filepath.Join(root, "kinds", "markdown"), "--source", root, "--with", markdown+"@v0.1.0")
	f(app.ExitFailure, "is not a checkout of uniflow: its module is \"example.com/none\"", "--source", "none", "--with", "example.com/none=none")
	f(app.ExitUsage, "is not a release that a module could name: its source is required", "--with", "example.com/none=none")
	f(app.ExitUsage, "the folder has the package example.com/none", "--with", "example.com/other=none")
	f(app.ExitUsage, "--with names example.com/none twice", "--source", root, "--with", "example.com/none=none", "--with", "example.com/none=none")
	f(app.ExitUsage, `"fmt" is not the address of a module`, "--with", "fmt")
	f(app.ExitUsage, "takes at least one --with")
	write(t, filepath.Join(dir, "notes.txt"), "mine")
	f(app.ExitUsage, "--output notes.txt is there, and is not a program", "--source", root, "--with", "example.com/none=none", "-o", "notes.txt")
	f(app.ExitUsage, "--output none is a folder", "--source", root, "--with", "example.com/none=none", "-o", "none")
	if left, err := filepath.Glob(filepath.Join(dir, "*bad*")); err != nil || len(left) > 0 {
		t.Errorf("a program that was not made has left %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".uniflow-build-*")); err != nil || len(left) > 0 {
		t.Errorf("a program that was not made has left %v, %v", left, err)
	}
}
