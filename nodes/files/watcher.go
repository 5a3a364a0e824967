package files

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/uniflow-labs/uniflow/node/glob"
)

// A watcher finds which files of some folders have changed, as far as the system reports
// it. It is not for concurrent use. Without the system's help it only waits.
type watcher struct {
	log     *slog.Logger
	system  *fsnotify.Watcher // nil if there is none
	watched map[string]bool
	changed map[string]bool // files that were written to; bounded by the number of files
	folders bool            // files have come or gone, or events were lost
}

func newWatcher(log *slog.Logger) *watcher {
	w := &watcher{log: log, watched: map[string]bool{}, changed: map[string]bool{}}
	system, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("the system does not report changes of files: they are looked for", "err", err)
		return w
	}
	w.system = system
	return w
}

// add watches the folders of patterns, those that have come since among them.
func (w *watcher) add(patterns []string) {
	if w.system == nil {
		return
	}
	for _, dir := range glob.Folders(patterns) {
		if !w.watched[dir] && w.system.Add(dir) == nil { // otherwise it is scanned
			w.watched[dir] = true
		}
	}
}

// wait returns when something has changed, after d, or with ctx's error.
func (w *watcher) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if w.system != nil {
		events, errs = w.system.Events, w.system.Errors
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case e := <-events:
		w.take(e)
	case err := <-errs:
		w.lost(err)
	}
	return nil
}

// drain returns what has changed since the last call: files that were written to, and
// whether files have come or gone.
func (w *watcher) drain() (changed map[string]bool, folders bool) {
	for more := w.system != nil; more; {
		select {
		case e := <-w.system.Events:
			w.take(e)
		case err := <-w.system.Errors:
			w.lost(err)
		default:
			more = false
		}
	}
	folders, w.folders = w.folders, false
	if len(w.changed) == 0 {
		return nil, folders
	}
	changed, w.changed = w.changed, map[string]bool{}
	return changed, folders
}

func (w *watcher) take(e fsnotify.Event) {
	switch {
	case e.Has(fsnotify.Create | fsnotify.Remove | fsnotify.Rename):
		w.folders = true
		if e.Has(fsnotify.Remove | fsnotify.Rename) {
			delete(w.watched, e.Name) // if it is a folder, another may take its place
		}
	case e.Has(fsnotify.Write):
		w.changed[filepath.Clean(e.Name)] = true
	}
}

func (w *watcher) lost(err error) {
	w.folders = true
	w.log.Debug("changes of files were lost, and are looked for", "err", err)
}

func (w *watcher) close() error {
	if w.system == nil {
		return nil
	}
	return w.system.Close()
}
