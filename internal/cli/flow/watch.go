package flow

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

const (
	// settle is how long nothing may happen before a change is reported: editors
	// write a file in several steps.
	settle = 100 * time.Millisecond
	// patience bounds that where something happens all the time.
	patience = time.Second
)

// A watcher tells when something happens in the folders that documents are read
// from. It does not know whether a document has changed: with symbolic links and
// editors that replace files, only reading tells.
type watcher struct {
	paths   []string
	log     *slog.Logger
	notify  *fsnotify.Watcher
	changed chan bool // whether a script was touched; has room for one
	done    chan struct{}
	workers sync.WaitGroup
}

// paths returns what the reading names, but for standard input.
func (r *reading) paths() []string {
	var paths []string
	for _, list := range [][]string{r.specPaths, r.valuePaths} {
		for _, path := range list {
			if path != app.StdinPath {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// newWatcher watches from now on. It must be closed.
func newWatcher(paths []string, log *slog.Logger) (*watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watcher{paths: paths, log: log, notify: notify, changed: make(chan bool, 1), done: make(chan struct{})}
	w.sync()
	w.workers.Go(w.run)
	return w, nil
}

// changes returns the channel of changes; nil, which never has one, for no
// watcher.
func (w *watcher) changes() <-chan bool {
	if w == nil {
		return nil
	}
	return w.changed
}

// Close ends the watching and waits for its goroutine.
func (w *watcher) Close() error {
	close(w.done)
	err := w.notify.Close()
	w.workers.Wait()
	return err
}

// sync watches the folders that there are now. It is called before each reading:
// what comes after that is then seen as a change.
func (w *watcher) sync() {
	for _, path := range w.paths {
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
				return nil // it is gone, or cannot be read: reading will say so
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

func (w *watcher) add(folder string) {
	if err := w.notify.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fsnotify.ErrClosed) {
		w.log.Warn("watching a folder", "path", folder, keyLogError, err)
	}
}

// run gathers events until they settle.
func (w *watcher) run() {
	timer := time.NewTimer(settle)
	timer.Stop()
	defer timer.Stop()
	var first time.Time // of the events that are gathered; zero for none
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
			script = script || isScript(event.Name)
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
		timer.Reset(min(settle, max(0, patience-now.Sub(first))))
	}
}

// matters reports whether a file may be one that is read, or lead to one. Logs and
// editors' swap files that are written beside the documents are not.
func (w *watcher) matters(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	if isScript(name) {
		return true
	}
	for _, path := range w.paths {
		if filepath.Base(path) == filepath.Base(name) {
			return true
		}
	}
	info, err := os.Lstat(name)
	return err != nil || !info.Mode().IsRegular() // a folder or link that came or went
}

// report hands over a change. If the last one was not taken yet, they become one.
func (w *watcher) report(script bool) {
	select {
	case before := <-w.changed:
		script = script || before
	default:
	}
	w.changed <- script // has room: only this goroutine sends
}

// isScript reports whether documents may import a file. Its content is not part
// of what is read, so a change of it cannot be told from none.
func isScript(name string) bool {
	switch filepath.Ext(name) {
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return true
	}
	return false
}
