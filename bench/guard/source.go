package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A Repo is a clone of a repository, by its folder. Nothing is written to it except
// what a fetch brings: a worktree would stay in its list if the guard is killed.
type Repo struct{ Dir string }

// runIn runs a program in a folder and returns what it prints.
func runIn(ctx context.Context, dir string, input []byte, program string, args ...string) ([]byte, error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %.500s", program, args[0], err, bytes.TrimSpace(errs.Bytes()))
	}
	return out, nil
}

func (r Repo) git(ctx context.Context, args ...string) ([]byte, error) {
	return runIn(ctx, r.Dir, nil, "git", args...)
}

// Resolve returns the hash of a revision. One that is not in the clone is
// fetched, with all of the history if the clone is shallow.
func (r Repo) Resolve(ctx context.Context, rev string) (string, error) {
	hash, err := r.parse(ctx, rev)
	if err == nil {
		return hash, nil
	}
	fetched := r.fetch(ctx, rev)
	if hash, err := r.parse(ctx, rev); err == nil {
		return hash, nil
	}
	if fetched == nil {
		fetched = err
	}
	return "", fmt.Errorf("the revision %q is not in this clone, and fetching did not bring it (%w): "+
		"run git fetch --unshallow, or name another revision", rev, fetched)
}

func (r Repo) parse(ctx context.Context, rev string) (string, error) {
	out, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	return strings.TrimSpace(string(out)), err
}

func (r Repo) fetch(ctx context.Context, rev string) error {
	shallow, err := r.git(ctx, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return err
	}
	args := []string{"origin", rev}
	if strings.TrimSpace(string(shallow)) == "true" {
		args = []string{"--unshallow"}
	}
	_, err = r.git(ctx, append([]string{"fetch", "--quiet"}, args...)...)
	return err
}

// Modified reports whether tracked files differ from the last commit, or there
// are new ones that are not ignored.
func (r Repo) Modified(ctx context.Context) (bool, error) {
	out, err := r.git(ctx, "status", "--porcelain")
	return len(out) > 0, err
}

// Export writes the files of a revision into a folder, which is made.
func (r Repo) Export(ctx context.Context, rev, dir string) error {
	archive, err := r.git(ctx, "archive", "--format=tar", rev)
	if err != nil {
		return err
	}
	return unpack(ctx, archive, dir)
}

func unpack(ctx context.Context, archive []byte, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, err := runIn(ctx, dir, archive, "tar", "--extract")
	return err
}
