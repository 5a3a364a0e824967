// Package source makes trees of the code at a revision, or as it is.
//
// A [Repo] is a clone: [Repo.Resolve] finds a revision, getting what a shallow
// clone lacks; [Repo.Export] writes its files into a folder, and [Repo.Copy]
// those of the working tree. Nothing is written to the clone itself but what a
// fetch brings, so nothing is left there whatever happens; a worktree would have
// to be taken out of its list again. The package must not know what trees are
// for.
package source

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Repo is a clone of a repository, by its folder.
type Repo struct{ Dir string }

// git runs the program in a folder and returns what it prints.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %.500s", args[0], err, bytes.TrimSpace(errs.Bytes()))
	}
	return out, nil
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
	out, err := git(ctx, r.Dir, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	return strings.TrimSpace(string(out)), err
}

func (r Repo) fetch(ctx context.Context, rev string) error {
	shallow, err := git(ctx, r.Dir, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(shallow)) == "true" {
		_, err = git(ctx, r.Dir, "fetch", "--quiet", "--unshallow")
		return err
	}
	_, err = git(ctx, r.Dir, "fetch", "--quiet", "origin", rev)
	return err
}

// Modified reports whether tracked files differ from the last commit, or there
// are new ones that are not ignored.
func (r Repo) Modified(ctx context.Context) (bool, error) {
	out, err := git(ctx, r.Dir, "status", "--porcelain")
	return len(out) > 0, err
}

// Export writes the files of a revision into a folder, which is made.
func (r Repo) Export(ctx context.Context, rev, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	archive, err := git(ctx, r.Dir, "archive", "--format=tar", rev)
	if err != nil {
		return err
	}
	files := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := extract(root, h, files); err != nil {
			return err
		}
	}
}

func extract(root *os.Root, h *tar.Header, content io.Reader) error {
	name := filepath.FromSlash(strings.TrimSuffix(h.Name, "/"))
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		return write(root, name, content, h.FileInfo().Mode().Perm())
	}
	return nil // the header with the hash of the commit
}

func write(root *os.Root, name string, content io.Reader, mode fs.FileMode) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// Copy writes the files of the working tree as they are, without those that are
// ignored, into a folder, which is made.
func (r Repo) Copy(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	list, err := git(ctx, r.Dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.Trim(string(list), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		if err := copyFile(root, filepath.FromSlash(name), filepath.Join(r.Dir, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(root *os.Root, name, from string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted, and not committed yet
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return errors.Join(root.MkdirAll(filepath.Dir(name), 0o755), root.Symlink(target, name))
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return write(root, name, f, info.Mode().Perm())
}

// Apply applies a patch to a tree that Export or Copy made. With check it only
// says whether it could.
func Apply(ctx context.Context, dir, patch string, check bool) error {
	patch, err := filepath.Abs(patch)
	if err != nil {
		return err
	}
	args := []string{"apply", "--whitespace=nowarn"}
	if check {
		args = append(args, "--check")
	}
	// In a folder of a repository, git leaves out what is not in its index.
	cmd := exec.CommandContext(ctx, "git", append(args, patch)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(dir, "no-repository"), "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git apply %s: %w: %.1000s", filepath.Base(patch), err, bytes.TrimSpace(out))
	}
	return nil
}
