package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/bench/program"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// repo returns a repository of two commits, and their hashes.
func repo(t *testing.T) (dir, first, second string) {
	dir = t.TempDir()
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	put(t, filepath.Join(dir, "a/file.txt"), "one\n")
	put(t, filepath.Join(dir, ".gitignore"), "out\n")
	if err := os.Symlink("file.txt", filepath.Join(dir, "a", "link")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "-m", "first")
	first = git(t, dir, "rev-parse", "HEAD")
	put(t, filepath.Join(dir, "a/file.txt"), "two\n")
	git(t, dir, "commit", "--quiet", "-am", "second")
	return dir, first, git(t, dir, "rev-parse", "HEAD")
}

func TestExport(t *testing.T) {
	dir, first, second := repo(t)
	r := Repo{Dir: dir}
	for rev, want := range map[string]string{first: "one\n", "HEAD": "two\n", "main~1": "one\n"} {
		hash, err := r.Resolve(t.Context(), rev)
		if err != nil || hash != first && hash != second {
			t.Fatalf("%s: got %s, %v", rev, hash, err)
		}
		tree := filepath.Join(t.TempDir(), "tree")
		if err := r.Export(t.Context(), hash, tree); err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, tree, "a/file.txt"); got != want {
			t.Errorf("%s: got %q, want %q", rev, got, want)
		}
		if got := readFile(t, tree, "a/link"); got != want {
			t.Errorf("%s, through the link: got %q, want %q", rev, got, want)
		}
	}
	if got := git(t, dir, "worktree", "list"); strings.Contains(got, "\n") {
		t.Errorf("got worktrees %s, want none left", got)
	}
	_, err := r.Resolve(t.Context(), "0123456789012345678901234567890123456789")
	if err == nil || !strings.Contains(err.Error(), "is not in this clone") || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("got %v, want what to do", err)
	}
	if _, err := r.Resolve(t.Context(), "--help"); err == nil {
		t.Error("got no error of a revision that looks like a flag")
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Export(done, first, filepath.Join(t.TempDir(), "x")); err == nil {
		t.Error("got no error after the end of the context")
	}
}

func TestShallow(t *testing.T) {
	dir, first, _ := repo(t)
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, dir, "clone", "--quiet", "--depth", "1", "file://"+dir, clone)
	if got, err := (Repo{Dir: clone}).Resolve(t.Context(), first); err != nil || got != first {
		t.Errorf("got %s, %v, want the first commit fetched", got, err)
	}
}

func TestCopy(t *testing.T) {
	dir, _, _ := repo(t)
	r := Repo{Dir: dir}
	if modified, err := r.Modified(t.Context()); err != nil || modified {
		t.Errorf("got modified %t, %v, want false", modified, err)
	}
	put(t, filepath.Join(dir, "a/file.txt"), "three\n")
	put(t, filepath.Join(dir, "b/new.txt"), "new\n")
	put(t, filepath.Join(dir, "out/big"), "ignored\n")
	if err := os.Remove(filepath.Join(dir, "a", "link")); err != nil {
		t.Fatal(err)
	}
	if modified, err := r.Modified(t.Context()); err != nil || !modified {
		t.Errorf("got modified %t, %v, want true", modified, err)
	}
	tree := filepath.Join(t.TempDir(), "tree")
	if err := r.Copy(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a/file.txt": "three\n", "b/new.txt": "new\n", "out/big": "(none)", "a/link": "(none)"} {
		if got := readFile(t, tree, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestApply(t *testing.T) {
	dir, _, _ := repo(t)
	// Also where the tree is in a folder of a repository.
	tree := filepath.Join(dir, "out", "tree")
	if err := (Repo{Dir: dir}).Copy(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	patch := filepath.Join(t.TempDir(), "a.patch")
	put(t, patch, "--- a/a/file.txt\n+++ b/a/file.txt\n@@ -1 +1 @@\n-two\n+four\n")
	if err := Apply(t.Context(), tree, patch); err != nil {
		t.Error(err)
	}
	if got := readFile(t, tree, "a/file.txt"); got != "four\n" {
		t.Errorf("got %q, want it applied", got)
	}
	if err := Apply(t.Context(), tree, patch); err == nil || !strings.Contains(err.Error(), "a.patch") {
		t.Errorf("a second time: got %v, want an error", err)
	}
}

// TestChanges checks that what the self-test does to the code can still be done,
// and compiles.
func TestChanges(t *testing.T) {
	root := filepath.Join("..", "..")
	for name, change := range map[string]func(tree string) error{
		"the shared lock": func(tree string) error {
			return Apply(t.Context(), tree, lockPatch)
		},
		"15 %": addFifteen,
	} {
		tree := filepath.Join(t.TempDir(), "tree")
		if err := (Repo{Dir: root}).Copy(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
		if err := change(tree); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := (program.Toolchain{Dir: tree}).Do(t.Context(), "build", "-trimpath", "./internal/run"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
