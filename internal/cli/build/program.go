package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

// A program is a module of Go in a folder, whose package main is the new program.
type program struct {
	dir      string
	tool     string    // the go command
	progress io.Writer // what the go command says
	source   string    // a checkout of this product; empty for a release
	asks     []request
}

// write writes go.mod and main.go.
func (p *program) write(ctx context.Context) error {
	version, err := p.run(ctx, "env", "GOVERSION")
	if err != nil {
		return err
	}
	mod := new(modfile.File)
	var sums []byte
	if err := mod.AddModuleStmt("uniflow-build"); err != nil {
		return err
	}
	if goVersion := strings.TrimPrefix(strings.Fields(version + " ?")[0], "go"); modfile.GoVersionRE.MatchString(goVersion) {
		if err := mod.AddGoStmt(goVersion); err != nil {
			return err
		}
	}
	hostVersion := app.Version()
	if p.source != "" {
		c, err := readCheckout(p.source)
		if err != nil {
			return err
		}
		for path, folder := range c.modules {
			if err := mod.AddReplace(path, "", folder, ""); err != nil {
				return err
			}
		}
		hostVersion, sums = "v0.0.0", c.sums
	}
	if err := mod.AddRequire(host, hostVersion); err != nil {
		return err
	}
	for _, r := range p.asks {
		if r.folder != "" {
			err = errors.Join(mod.AddReplace(r.module, "", r.folder, ""), mod.AddRequire(r.module, "v0.0.0"))
		}
	}
	mod.Cleanup()
	data, formatErr := mod.Format()
	return errors.Join(err, formatErr, p.file("go.mod", data), p.file("go.sum", sums), p.file("main.go", p.main()))
}

// main is the source of the package main. The first lines of its body hold each package to
// the signature: so the compiler says which one is at fault, by the line.
func (p *program) main() []byte {
	var b bytes.Buffer
	b.WriteString("package main\n\nimport (\n\"context\"\n\"os\"\n_ \"time/tzdata\"\n\n")
	fmt.Fprintf(&b, "%q\n%q\n%q\n\n", host+"/cli", host+"/node", host+"/node/stream")
	for i, r := range p.asks {
		fmt.Fprintf(&b, "kinds%d %q\n", i, r.path)
	}
	b.WriteString(")\n\nfunc main() {\nos.Exit(cli.Main(context.Background(), os.Args[1:], kinds...))\n}\n\nvar kinds = []func(stream.Options) []*node.Def{\n")
	for i := range p.asks {
		fmt.Fprintf(&b, "kinds%d.Defs,\n", i)
	}
	b.WriteString("}\n")
	source, err := format.Source(b.Bytes())
	if err != nil {
		return b.Bytes() // the compiler will tell
	}
	return source
}

// resolve fetches what the program needs, and returns the modules of the packages with their
// versions, as text.
func (p *program) resolve(ctx context.Context) (modules []string, err error) {
	for _, r := range p.asks {
		if r.folder != "" {
			continue
		}
		if _, err := p.run(ctx, "get", r.path+"@"+r.version); err != nil {
			return nil, fmt.Errorf("%s@%s: %w", r.path, r.version, err)
		}
	}
	for _, r := range p.asks {
		out, err := p.run(ctx, "list", "-json=Name,Module", r.path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.path, err)
		}
		var listed struct {
			Name   string
			Module *struct{ Path, Version string }
		}
		if err := json.Unmarshal([]byte(out), &listed); err != nil {
			return nil, err
		}
		switch {
		case listed.Name == "main":
			return nil, hinted("name the package that has the function Defs", "%s is a program, and cannot be part of another", r.path)
		case listed.Module == nil:
			return nil, hinted("name a package of another module", "%s comes with the Go language", r.path)
		case r.folder != "":
			modules = append(modules, listed.Module.Path+" in "+r.folder)
		default:
			modules = append(modules, listed.Module.Path+" "+listed.Module.Version)
		}
	}
	slices.Sort(modules)
	return slices.Compact(modules), nil
}

// build compiles the program, and moves it to a file when it is whole.
func (p *program) build(ctx context.Context, output string) error {
	args := []string{"build", "-trimpath", "-ldflags", "-s -w"}
	if folder, err := p.run(ctx, "list", "-f", "{{.Dir}}", host+"/cmd/uniflow"); err == nil { // a host without it is slower, not wrong
		args = append(args, "-pgo="+filepath.Join(strings.TrimSpace(folder), "default.pgo"))
	}
	target, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	unfinished, err := os.CreateTemp(filepath.Dir(target), ".uniflow-build-")
	if err != nil {
		return err
	}
	if err := unfinished.Close(); err != nil {
		return err
	}
	if _, err = p.run(ctx, append(args, "-o", unfinished.Name(), ".")...); err == nil {
		err = os.Rename(unfinished.Name(), target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(unfinished.Name()))
	}
	return nil
}

// run runs the go command in the program's module, and returns its output. What it says
// meanwhile, such as what it downloads, is shown.
func (p *program) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.tool, args...)
	cmd.Dir = p.dir
	// The module is ours, in no workspace and no repository, and no C compiler runs.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false", "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it removes its files
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(&errs, p.progress)
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", hinted("install Go, or name the command with --go", "there is no command %q", p.tool)
	}
	if err == nil {
		return out.String(), nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	for _, known := range []func(string) error{p.blame, p.unreleased} {
		if err := known(errs.String()); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%s %s: %w", p.tool, args[0], err)
}

var inMain = regexp.MustCompile(`(?m)^\./main\.go:(\d+):\d+: (.*)$`)

// blame returns an error about the package that an error of the compiler is about, if it is
// about the line of one in main.go.
func (p *program) blame(errs string) error {
	m := inMain.FindStringSubmatch(errs)
	if m == nil {
		return nil
	}
	line, _ := strconv.Atoi(m[1]) // digits
	lines := bytes.Split(p.main(), []byte("\n"))
	for i, r := range p.asks {
		if line > 0 && line <= len(lines) && strings.Contains(string(lines[line-1]), fmt.Sprintf("kinds%d.Defs", i)) {
			return hinted("docs/nodes.md has an example", "%s has no function Defs(stream.Options) []*node.Def: %s", r.path, strings.ReplaceAll(m[2], fmt.Sprintf("kinds%d.", i), ""))
		}
	}
	return nil
}

// unreleased returns an error about a module of this product that the go command cannot fetch, or a package that it
// does not have.
func (p *program) unreleased(errs string) error {
	noRelease := regexp.MustCompile(`(?m)^(?:go: |\t)(` + host + `(?:/[^\s@:]+)?)@([^\s:]+): .*(?:: 40[34] |: 410 |lookup disabled|no matching versions|no such file|unknown revision)`)
	if m := noRelease.FindStringSubmatch(errs); m != nil {
		hint := "clone the repository of uniflow, and write --source FOLDER"
		if p.source != "" {
			hint = "the checkout of --source does not have it either: name another one"
		}
		return hinted(p.inCheckout(m[1], hint), "there is no release %s of %s, which is a part of uniflow, where the go command looks for modules", m[2], m[1])
	}
	noPackage := regexp.MustCompile(`(?:cannot find module providing|does not contain) package (` + host + `/\S+)`)
	if m := noPackage.FindStringSubmatch(errs); m != nil {
		return hinted(p.inCheckout(m[1], "take a version of the module that is made for this version of uniflow"), "this version of uniflow does not have the package %s", m[1])
	}
	return nil
}

// inCheckout returns how to get a module from the checkout, or the other hint if it is not there.
func (p *program) inCheckout(path, other string) string {
	folder := filepath.Join(p.source, filepath.FromSlash(strings.TrimPrefix(path, host)))
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err != nil || p.source == "" {
		return other
	}
	return "the checkout of --source has it as a module: write --with " + path + "=" + folder
}

func (p *program) file(name string, data []byte) error {
	return os.WriteFile(filepath.Join(p.dir, name), data, 0o600)
}
