package flow

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
)

const (
	// quiet is how long nothing must happen before a change is reported: editors write a
	// file in several steps.
	quiet = 100 * time.Millisecond
	// maxDelay is when a change is reported even if files go on changing.
	maxDelay = time.Second
)

// A watcher reports when something happens in the folders that documents are read
// from. Whether a document has changed is only known after reading it, because of
// symbolic links and editors that replace files.
type watcher struct {
	paths   []string                 // that were named
	folders []string                 // the paths in which every file matters
	plugins []string                 // folders with kinds, in which a change of any file is one of a script
	more    atomic.Pointer[[]string] // files that values files refer to
	log     *slog.Logger
	notify  *fsnotify.Watcher
	changed chan bool // whether a script was touched; buffer of one
	done    chan struct{}
	workers sync.WaitGroup
}

// paths are the files and folders to read, without standard input.
func (r *reading) paths() []string {
	var paths []string
	for _, list := range [][]string{r.specPaths, r.valuePaths, r.plugins} {
		for _, path := range list {
			if path != app.StdinPath && !strings.HasPrefix(path, "env:") {
				paths = append(paths, strings.TrimPrefix(path, "file:"))
			}
		}
	}
	return paths
}

// testAgain runs tests, and again whenever something changes, until ctx ends.
func (a commands) testAgain(ctx context.Context, r *reading, s *settings.Settings, o *testOptions) (err error) {
	w, err := newWatcher(r, a.Logger(false, "text"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for {
		w.sync()
		if err := a.test(ctx, r, s, o); err != nil && ctx.Err() == nil {
			a.Complain(err)
		}
		if w.follow(slices.Clone(o.read)) {
			continue // they may have changed before they were watched
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.changes():
		}
	}
}

// newWatcher starts to watch what is read. The caller must close the watcher.
func newWatcher(r *reading, log *slog.Logger) (*watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watcher{paths: r.paths(), folders: r.valuePaths, plugins: r.plugins, log: log, notify: notify, changed: make(chan bool, 1), done: make(chan struct{})}
	w.sync()
	w.workers.Go(w.run)
	return w, nil
}

// changes returns the channel of changes. For a nil watcher it is nil and blocks.
func (w *watcher) changes() <-chan bool {
	if w == nil {
		return nil
	}
	return w.changed
}

func (w *watcher) Close() error {
	close(w.done)
	err := w.notify.Close()
	w.workers.Wait()
	return err
}

// sync watches the folders that exist now. Call it before reading, so that later
// changes are seen.
func (w *watcher) sync() {
	for _, path := range w.files() {
		w.add(filepath.Dir(path)) // where it would be replaced
		if target, err := filepath.EvalSymlinks(path); err == nil {
			w.add(filepath.Dir(target))
			path = target
		}
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		err = filepath.WalkDir(path, func(folder string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil // reading reports it
			}
			if !entry.IsDir() {
				return nil
			}
			if folder != path && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			w.add(folder)
			return nil
		})
		if err != nil {
			w.log.Warn("watching a folder", "path", path, keyLogError, err)
		}
	}
}

// follow watches the files that values files refer to, too. It reports whether there
// are others than before: these may have changed since they were read.
func (w *watcher) follow(paths []string) (others bool) {
	slices.Sort(paths)
	if before := w.more.Swap(&paths); before != nil && slices.Equal(paths, *before) || before == nil && len(paths) == 0 {
		return false
	}
	w.sync()
	return true
}

func (w *watcher) files() []string {
	if more := w.more.Load(); more != nil {
		return slices.Concat(w.paths, *more)
	}
	return w.paths
}

func (w *watcher) add(folder string) {
	if err := w.notify.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fsnotify.ErrClosed) {
		w.log.Warn("watching a folder", "path", folder, keyLogError, err)
	}
}

// run collects events until files are quiet.
func (w *watcher) run() {
	timer := time.NewTimer(quiet)
	timer.Stop()
	defer timer.Stop()
	var first time.Time // of the collected events; zero for none
	script := false
	for {
		select {
		case <-w.done:
			return
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			if event.Op == fsnotify.Chmod || !w.matters(event.Name) {
				continue // indexers and backups change modes all the time
			}
			script = script || isScript(event.Name) || within(w.plugins, event.Name)
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			// After an overflow, anything may have happened.
			w.log.Warn("watching files", keyLogError, err)
		case <-timer.C:
			w.report(script)
			first, script = time.Time{}, false
			continue
		}
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		timer.Reset(min(quiet, max(0, maxDelay-now.Sub(first))))
	}
}

// matters reports whether a file may be a document or a script, or lead to one. Logs
// and swap files of editors in the same folder do not matter.
func (w *watcher) matters(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	if isScript(name) {
		return true
	}
	for _, path := range w.files() {
		if filepath.Base(path) == filepath.Base(name) {
			return true
		}
	}
	if within(w.folders, name) || within(w.plugins, name) {
		return true // it may be the data of a variable, or a part of a program
	}
	info, err := os.Lstat(name)
	return err != nil || !info.Mode().IsRegular() // a folder or link, or a file that was removed
}

// within reports whether a file is in one of the folders. Hidden files are not, and what Python keeps is not.
func within(folders []string, name string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		in, err := filepath.Rel(folder, name)
		return err == nil && filepath.IsLocal(in) && !strings.HasPrefix(filepath.Base(name), ".") && !strings.Contains(in, "__pycache__")
	})
}

// report sends a change. If the last one was not received yet, they become one.
func (w *watcher) report(script bool) {
	select {
	case before := <-w.changed:
		script = script || before
	default:
	}
	w.changed <- script // has room: only this goroutine sends
}

// isScript reports whether documents may import a file, or run it as a module. Such files are not
// among the documents that are read, so any event may be a change.
func isScript(name string) bool {
	switch filepath.Ext(name) {
	case ".wasm", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".py":
		return true
	}
	return false
}
