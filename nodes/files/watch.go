package files

import (
	"context"
	_ "embed"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed watch.md
var watchPage string

func watchSource() stream.Source {
	return stream.Source{
		Kind:    "watch",
		Summary: "Says which files were made, changed and removed.",
		Page:    node.ReadPage(watchPage),
		Config: schema.Fields(
			schema.Strings("paths").Required().Doc("The files: paths, or patterns with `*`, `?`, `[a-z]`, and `**` between slashes for any number of folders."),
			schema.Bool("existing").Default(false).Doc("Whether the files that are there at the start are reported as created."),
			schema.Duration("delay").Default("100ms").Range(0, float64(time.Minute)).Doc("How long to wait for more changes after the first one."),
			schema.Duration("rescan").Default("10s").Range(float64(time.Millisecond), float64(time.Hour)).Doc("How often to look for changes that the system does not report, such as those on network drives."),
		),
		Traits: stream.Traits{Raw: true, Order: stream.OrderTotal},
		Open:   openWatch,
	}
}

// A watch reads changes of files.
type watch struct {
	paths         []string
	existing      bool
	delay, rescan time.Duration
	log           *slog.Logger

	system  *watcher
	known   map[string]fs.FileInfo // what was reported
	scanned time.Time
	more    bool // there was no room for all changes
	start   int64
	count   int64
}

func openWatch(init *node.Init) (stream.Reader, error) {
	c := init.Config
	w := &watch{paths: c.Strings("paths"), existing: c.Bool("existing"), delay: c.Duration("delay"), rescan: c.Duration("rescan"), log: init.Log}
	if err := checkPatterns(w.paths); err != nil {
		return nil, c.Errorf("paths", diag.CodeBadValue, "%s", err).WithHint("%s", patternHint)
	}
	warnMissing(init, true)
	return w, nil
}

// Connect notes what there is.
func (w *watch) Connect(context.Context, stream.Host) error {
	w.system = newWatcher(w.log)
	w.system.add(w.paths)
	w.start, w.scanned = time.Now().UnixNano(), time.Now()
	w.known = map[string]fs.FileInfo{}
	if w.more = w.existing; !w.existing {
		w.known = w.scan()
	}
	return nil
}

func (w *watch) scan() map[string]fs.FileInfo {
	found := map[string]fs.FileInfo{}
	for _, path := range expand(w.paths) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			found[path] = info
		}
	}
	return found
}

// Read waits for changes, and returns them sorted by their paths.
func (w *watch) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if changed, folders := w.system.drain(); !w.more && changed == nil && !folders && time.Since(w.scanned) < w.rescan {
			if err := w.system.wait(ctx, w.rescan); err != nil {
				return nil, err
			}
			if err := (node.SystemClock{}).Sleep(ctx, w.delay); err != nil {
				return nil, err
			}
			continue
		}
		w.scanned = time.Now()
		w.system.add(w.paths)
		found := w.scan()
		var messages []stream.Message
		all := maps.Clone(w.known)
		maps.Copy(all, found)
		w.more = false
		for _, path := range slices.Sorted(maps.Keys(all)) {
			change := change(w.known[path], found[path])
			if change == "" {
				continue
			}
			if w.more = len(messages) == room.Messages; w.more {
				break
			}
			messages = append(messages, w.message(path, change, found[path]))
		}
		if len(messages) > 0 {
			return messages, nil
		}
	}
}

func change(before, after fs.FileInfo) string {
	switch {
	case before == nil:
		return "created"
	case after == nil:
		return "removed"
	case !os.SameFile(before, after) || before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()):
		return "changed"
	}
	return ""
}

func (w *watch) message(path, change string, info fs.FileInfo) stream.Message {
	var b value.MapBuilder
	b.Set("path", value.String(path))
	b.Set("change", value.String(change))
	m := stream.Message{}
	if info == nil {
		delete(w.known, path)
	} else {
		w.known[path] = info
		m.Time = info.ModTime()
		b.Set("size", value.Int(info.Size()))
		b.Set("time", value.Time(m.Time))
	}
	m.Body = b.Build()
	w.count++
	m.Token = w.count
	return m
}

// Settle does nothing: changes are not kept.
func (w *watch) Settle(context.Context, stream.Settled) error { return nil }

// Fields adds a name of the change.
func (w *watch) Fields(m *stream.Message, b *value.MapBuilder) {
	b.Set("id", value.String(strconv.FormatInt(w.start, 36)+":"+strconv.FormatInt(m.Token.(int64), 10)))
}

// Close stops watching.
func (w *watch) Close(context.Context) error {
	if w.system == nil {
		return nil
	}
	err := w.system.close()
	w.system = nil
	return err
}
