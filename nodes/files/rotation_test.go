package files

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// pack does as gzip does: the compressed file gets the time of the original, which is removed.
func pack(t *testing.T, path string) string { return packAs(t, path, path+".gz") }

func packAs(t *testing.T, path, to string) string {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	compress(t, path, to)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	return to
}

// compress makes a compressed file, which gets the time of the original.
func compress(t *testing.T, path, to string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if strings.HasSuffix(to, ".zst") {
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, to, b.String())
	if err := os.Chtimes(to, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// duplicate copies a file.
func duplicate(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(text))
}

func truncate(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
}

// numbered returns lines with numbers, long enough for places within a file.
func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "%d %s\n", i, strings.Repeat("x", i%90))
	}
	return b.String()
}

// numbers returns the numbers of the lines that were read.
func numbers(text string) (all []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "error") {
			all = append(all, strings.TrimSpace(line))
			continue
		}
		all = append(all, strings.Fields(line)[1])
	}
	return all
}

func sequence(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// A rotation is what a tool does to app.log, with 100 lines in it, the last of which were
// not read, and the lines that it appends then.
var rotations = []struct {
	name string
	do   func(t *testing.T)
}{
	{"compress", func(t *testing.T) {
		rename(t, "app.log", "app.log.1")
		write(t, "app.log", numbered(100, 110))
		pack(t, "app.log.1")
	}},
	{"delaycompress", func(t *testing.T) {
		rename(t, "app.log", "app.log.1")
		write(t, "app.log", numbered(100, 105))
		rename(t, "app.log.1", "app.log.2")
		rename(t, "app.log", "app.log.1")
		pack(t, "app.log.2")
		write(t, "app.log", numbered(105, 110))
	}},
	{"dateext", func(t *testing.T) {
		rename(t, "app.log", "app.log-20240102")
		write(t, "app.log", numbered(100, 110))
		packAs(t, "app.log-20240102", "app.log-20240102.zst")
	}},
	{"copytruncate", func(t *testing.T) {
		duplicate(t, "app.log", "app.log.1")
		truncate(t, "app.log")
		appendTo(t, "app.log", numbered(100, 110))
	}},
	{"copytruncate and compress", func(t *testing.T) {
		duplicate(t, "app.log", "app.log.1")
		truncate(t, "app.log")
		pack(t, "app.log.1")
		appendTo(t, "app.log", numbered(100, 110))
	}},
	{"copytruncate twice, and compress", func(t *testing.T) {
		duplicate(t, "app.log", "app.log.1")
		truncate(t, "app.log")
		appendTo(t, "app.log", numbered(100, 105))
		rename(t, "app.log.1", "app.log.2")
		pack(t, "app.log.2")
		duplicate(t, "app.log", "app.log.1")
		truncate(t, "app.log")
		appendTo(t, "app.log", numbered(105, 110))
	}},
	{"copytruncate, filled with as much", func(t *testing.T) {
		duplicate(t, "app.log", "app.log.1")
		truncate(t, "app.log")
		appendTo(t, "app.log", numbered(100, 300))
	}},
}

const rotated = `{"paths": "app*", "idle": "50ms", "rescan": "20ms", "follow": %v}`

// TestRotatedMeanwhile rotates a file of which some was settled while nothing reads it: what
// follows is read once, and so are the next rotations of what came of it.
func TestRotatedMeanwhile(t *testing.T) {
	for _, r := range rotations {
		for _, settled := range []int{1, 20, 60, 100} {
			t.Run(fmt.Sprintf("%s/%d", r.name, settled), func(t *testing.T) {
				folder(t, "app.log", numbered(0, 100))
				config := fmt.Sprintf(rotated, false)
				before := newReading(t, config, nil)
				before.read(settled)
				before.close()
				r.do(t)
				after := newReading(t, config, before.marks)
				got := numbers(after.read(-1))
				after.close()
				last := 110
				if strings.Contains(r.name, "as much") {
					last = 300
				}
				slices.SortFunc(got, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
				if want := sequence(settled, last); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v\n%s", got, want, &after.log)
				}
				for _, name := range matching(t, "app.log.[1-9]") {
					pack(t, name)
				}
				for range 2 {
					again := newReading(t, config, after.marks)
					if got := again.read(-1); got != "" {
						t.Errorf("read again: %s\n%s", got, &again.log)
					}
					again.close()
					after = again
				}
			})
		}
	}
}

func matching(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRotatedUnderReader does the same while the source follows the file, with some lines read
// that are settled afterwards: positions belong to the file that has the lines now, and
// the messages keep their ids.
func TestRotatedUnderReader(t *testing.T) {
	for _, r := range rotations {
		for _, read := range []int{1, 60, 100} {
			t.Run(fmt.Sprintf("%s/%d", r.name, read), func(t *testing.T) {
				folder(t, "app.log", numbered(0, 100))
				config := fmt.Sprintf(rotated, true)
				running := newReading(t, config, nil)
				messages := running.messages(read)
				late := messages[len(messages)/2:]
				running.settle(messages[:len(messages)/2])
				first := id(running, &messages[0])
				r.do(t)
				last := 110
				if strings.Contains(r.name, "as much") {
					last = 300
				}
				more := running.messages(last - read)
				got := append(numbers(running.text(messages)), numbers(running.text(more))...)
				slices.SortFunc(got, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
				if want := sequence(0, last); !slices.Equal(got, want) {
					t.Errorf("got %v\n%s", got, &running.log)
				}
				if again := id(running, &messages[0]); again != first {
					t.Errorf("the id of a message was %s, and is %s", first, again)
				}
				ids := map[string]bool{}
				for _, m := range append(slices.Clone(messages), more...) {
					ids[id(running, &m)] = true
				}
				if len(ids) != last {
					t.Errorf("got %d ids of %d messages", len(ids), last)
				}
				for range 3 {
					running.idle()
				}
				running.settle(slices.Concat(late, more))
				running.close()
				after := newReading(t, fmt.Sprintf(rotated, false), running.marks)
				if got := after.read(-1); got != "" {
					t.Errorf("read again: %s\n%s\n%s\n%v", got, &running.log, &after.log, running.marks)
				}
			})
		}
	}
}

// A logWriter writes numbered lines to app.log, and rotates it.
type logWriter struct {
	t       *testing.T
	random  *rand.Rand
	copies  bool // copytruncate
	delay   int  // 1: delaycompress
	long    int  // of a line
	written int
	since   int  // the first line since the log was copied
	copied  bool // and not truncated
	steps   []string
}

// write appends some lines, of which some rotations have none.
func (w *logWriter) write() {
	for range w.random.IntN(40) {
		appendTo(w.t, "app.log", fmt.Sprintf("%d %s\n", w.written, strings.Repeat("x", w.random.IntN(w.long))))
		w.written++
	}
}

// rotation returns the steps of one rotation. done says that all was read.
func (w *logWriter) rotation(done func() bool) (steps []func()) {
	step := func(name string, f func()) {
		steps = append(steps, func() {
			w.steps = append(w.steps, name)
			f()
		})
	}
	there := func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	}
	step("write", w.write)
	step("write more", w.write)
	for n := 9; n > 0; n-- {
		for _, ext := range []string{"", ".gz"} {
			from, to := fmt.Sprintf("app.log.%d%s", n, ext), fmt.Sprintf("app.log.%d%s", n+1, ext)
			step("rename "+from, func() {
				switch {
				case !there(from):
				case n > 3 && done(): // it was kept for long enough
					if err := os.Remove(from); err != nil {
						w.t.Fatal(err)
					}
				default:
					rename(w.t, from, to)
				}
			})
		}
	}
	if w.copies {
		step("copy", func() {
			duplicate(w.t, "app.log", "app.log.1")
			w.copied = true
		})
		step("truncate", func() {
			truncate(w.t, "app.log")
			w.copied, w.since = false, w.written
		})
	} else {
		step("rename", func() { rename(w.t, "app.log", "app.log.1") })
	}
	step("write again", func() {
		appendTo(w.t, "app.log", "")
		w.write()
	})
	name := fmt.Sprintf("app.log.%d", 1+w.delay)
	step("compress "+name, func() {
		if there(name) {
			old := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(name, old, old); err != nil {
				w.t.Fatal(err)
			}
			compress(w.t, name, name+".gz")
		}
	})
	step("remove "+name, func() {
		if there(name) {
			if err := os.Remove(name); err != nil {
				w.t.Fatal(err)
			}
		}
	})
	return steps
}

// TestRotatedAtRandom lets a writer rotate a log in several ways, with restarts of the source
// between any two steps. No line is lost; and none comes twice, as all that was read is settled
// before each restart, nothing is written between copying and truncating, and some of what is
// copied was read.
func TestRotatedAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ROTATION_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	rounds := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && !t.Failed(); seed++ {
		rotateAtRandom(t, seed)
		rounds++
	}
	t.Logf("%d rounds", rounds)
}

func rotateAtRandom(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	folder(t, "app.log", "")
	w := &logWriter{t: t, random: random, copies: random.IntN(2) == 0, delay: random.IntN(2), long: []int{1, 50, 2000}[random.IntN(3)]}
	got := map[string]int{}
	var marks map[string]string
	var source *reading
	defer func() {
		if !t.Failed() {
			return
		}
		log := ""
		if source != nil {
			log = source.log.String()
		}
		t.Logf("ROTATION_SEED=%d (copies %v, delay %d, long %d)\n%s\n%s", seed, w.copies, w.delay, w.long, strings.Join(w.steps, "\n"), log)
	}()
	count := func(messages []stream.Message) {
		source.settle(messages)
		text := source.text(messages)
		if len(messages) > 0 {
			w.steps = append(w.steps, strings.Join(strings.Fields(strings.ReplaceAll(text, "x", "")), " "))
		}
		for _, n := range numbers(text) {
			if got[n]++; got[n] > 1 || strings.HasPrefix(n, "error") {
				w.steps = append(w.steps, fmt.Sprintf("%s comes %d times", n, got[n]))
				t.Fail()
			}
		}
	}
	run := func(follow bool, some int) { // of the source, until some lines were read
		if source == nil {
			w.steps = append(w.steps, fmt.Sprintf("start, follow %v", follow))
			source = newReading(t, fmt.Sprintf(`{"paths": "app*", "idle": "1h", "rescan": "1ms", "follow": %v}`, follow), marks)
		}
		for some > 0 && !source.ended && !t.Failed() {
			messages, err := source.source.Read(t.Context(), stream.Room{Messages: 1 + random.IntN(some), Bytes: 1 << 20})
			if err == io.EOF {
				source.ended = true
			} else if err != nil {
				t.Fatal(err)
			}
			count(messages)
			some -= len(messages)
		}
	}
	stop := func() {
		if source != nil {
			w.steps = append(w.steps, fmt.Sprintf("stop\n%s%v", &source.log, source.marks))
			marks = source.marks
			source.close()
			source = nil
		}
	}
	for range 8 {
		for _, step := range w.rotation(func() bool { return len(got) == w.written }) {
			step()
			// Of two files that were never read, it cannot be known which one will be truncated.
			if random.IntN(3) > 0 || w.copied && got[fmt.Sprint(w.since)] == 0 {
				continue
			}
			// A source that does not follow is at its end of all that there is.
			if source != nil || random.IntN(2) == 0 {
				run(true, random.IntN(1+w.written-len(got)))
			} else {
				run(false, 1+w.written)
				stop()
			}
			if random.IntN(2) == 0 {
				stop()
			}
		}
	}
	stop()
	run(false, 1+w.written)
	if len(got) != w.written && !t.Failed() {
		t.Errorf("got %d lines of %d", len(got), w.written)
	}
	stop()
}

// TestOriginals says of which files a file may be a rotation.
func TestOriginals(t *testing.T) {
	f := func(name, of string, want bool) {
		t.Helper()
		if got := slices.Contains(originals(name), of); got != want {
			t.Errorf("%s of %s: got %v", name, of, got)
		}
	}
	for _, name := range []string{"app.log.1", "app.log.12", "app.log.gz", "app.log.2.gz", "app.log-20240102", "app.log-20240102.zst", "app-20240102.log", "app.log.2024-01-02_03",
		"app-2024-01-02T03-04-05.678.log.gz", "app.20260105T100000.000Z.log", "old/app.log.1"} {
		f(name, "app.log", true)
	}
	for _, name := range []string{"app.log", "app.txt.1", "app2.log", "app.log.old", "web.log.1", "old/older/app.log.1"} {
		f(name, "app.log", false)
	}
	f("app.log.3.gz", "app.log.1", true)
	f("app.log.1.gz", "app.log.2", false)
	f("app.log-20240102.gz", "app.log-20240102", true)
	f("app.log-20240103.gz", "app.log-20240102", false)
	f("app.log.20240103.gz", "app.log.20240102", false)
	f("v1.2.log.1", "v1.2.log", true)
}

// TestEqualDays reads two files with equal content, as neither is a copy of the other: a plain
// file of a later day, when the first is there or was deleted, and two that are compressed.
func TestEqualDays(t *testing.T) {
	day := numbered(0, 100)
	f := func(name string, days []string, between func()) {
		t.Helper()
		folder(t, days[0], day)
		config := `{"paths": "app*", "idle": "0s"}`
		r := newReading(t, config, nil)
		first := numbers(r.read(-1))
		r.close()
		between()
		for _, next := range days[1:] {
			write(t, next, day)
		}
		r = newReading(t, config, r.marks)
		if got := numbers(r.read(-1)); len(first) != 100 || !slices.Equal(got, first) {
			t.Errorf("%s: got %d lines\n%s", name, len(got), &r.log)
		}
		r.close()
	}
	f("both are there", []string{"app-20240101.log", "app-20240102.log"}, func() {})
	f("the first is away", []string{"app-20240101.log", "app-20240102.log"}, func() { rename(t, "app-20240101.log", "gone") })
	f("the inode is used again", []string{"app-20240101.log", "app-20240102.log"}, func() { rename(t, "app-20240101.log", "app-20240102.log") })
	f("one is rotated", []string{"app.log", "app.log.1"}, func() {})
	f("one is rotated, and the other away", []string{"app.log", "app.log.1"}, func() { rename(t, "app.log", "gone") })
	f("the first is compressed", []string{"app-20240101.log", "app-20240102.log"}, func() { pack(t, "app-20240101.log") })
	f("the first is compressed, the next is the log", []string{"app.log", "app.log"}, func() { packAs(t, "app.log", "app.log.1.gz") })
}

// TestCopyIsHeld does not read a copy before the file that it is of is truncated, and then not
// what was read; but lines that were added before it was truncated count as lines of the copy.
func TestCopyIsHeld(t *testing.T) {
	folder(t, "app.log", numbered(0, 100))
	r := newReading(t, `{"paths": "app*", "idle": "1h", "rescan": "1ms", "follow": true}`, nil)
	messages := r.messages(100)
	duplicate(t, "app.log", "app.log.1")
	r.idle()
	appendTo(t, "app.log", "late\n")
	messages = append(messages, r.messages(1)...)
	truncate(t, "app.log")
	appendTo(t, "app.log", "new\n")
	more := r.messages(1)
	same(t, "after it was truncated", r.text(more), "app.log:1 new")
	r.idle()
	r.settle(append(messages, more...))
	r.close()
	if strings.Contains(r.log.String(), "WARN") {
		t.Errorf("the log has a warning:\n%s", &r.log)
	}
	pack(t, "app.log.1")
	r = newReading(t, `{"paths": "app*", "idle": "0s"}`, r.marks)
	same(t, "the next run", r.read(-1), "")
}

// TestCopyOfWholeFile reads a copy from its beginning when the original is not truncated, and
// warns of it, once.
func TestCopyOfWholeFile(t *testing.T) {
	folder(t, "app.log", "1\n2\n")
	r := newReading(t, following, nil)
	r.close()
	r = newReading(t, strings.ReplaceAll(following, "*.log*", "app*"), nil)
	r.read(2)
	duplicate(t, "app.log", "app.log.1")
	same(t, "a copy", r.read(2), "app.log.1:1 1\napp.log.1:2 2")
	warning := "msg=\"a file that looks like a rotation of another is read from its beginning\" path=app.log.1 of=app.log reason=\"that file is still there as it was\" hint="
	if n := strings.Count(r.log.String(), warning); n != 1 {
		t.Errorf("got %d warnings:\n%s", n, &r.log)
	}
	r.close()
	// Files that have the same and are new are both read.
	folder(t, "app.log", "1\n", "app.log.1", "1\n")
	r = newReading(t, `{"paths": "app*"}`, nil)
	same(t, "both new", r.read(-1), "app.log:1 1\napp.log.1:1 1")
	if n := strings.Count(r.log.String(), `reason="neither was read before"`); n != 1 {
		t.Errorf("got %d warnings:\n%s", n, &r.log)
	}
	r.close()
	// A job leaves a young one alone.
	folder(t, "app.log", "1\n2\n")
	r = newReading(t, `{"paths": "app*", "idle": "1h"}`, nil)
	r.read(-1)
	r.close()
	duplicate(t, "app.log", "app.log.1")
	for range 2 {
		r = newReading(t, `{"paths": "app*", "idle": "1h"}`, r.marks)
		same(t, "a job", r.read(-1), "")
		if !strings.Contains(r.log.String(), "left for the next run") {
			t.Errorf("the log has\n%s", &r.log)
		}
		r.close()
	}
	truncate(t, "app.log")
	r = newReading(t, `{"paths": "app*", "idle": "1h"}`, r.marks)
	same(t, "the run after", r.read(-1), "")
	r.close()
	pack(t, "app.log.1") // it still has the mark of app.log, as nothing was settled
	r = newReading(t, `{"paths": "app*", "idle": "0s"}`, r.marks)
	same(t, "the last run", r.read(-1), "")
}

// TestRotationThatIsNone warns of a file that begins like one that is gone, and reads it.
func TestRotationThatIsNone(t *testing.T) {
	folder(t, "app.log", numbered(0, 100))
	config := `{"paths": "app*", "idle": "0s"}`
	r := newReading(t, config, nil)
	r.read(-1)
	r.close()
	write(t, "app.log", numbered(0, 50)) // the end is missing
	packAs(t, "app.log", "app.log.1.gz")
	r = newReading(t, config, r.marks)
	if got := numbers(r.read(-1)); len(got) != 50 {
		t.Errorf("got %d lines", len(got))
	}
	if n := strings.Count(r.log.String(), "WARN"); n != 1 || !strings.Contains(r.log.String(), "path=app.log.1.gz of=app.log") {
		t.Errorf("got %d warnings:\n%s", n, &r.log)
	}
}

// TestTruncatedUnread returns what had been read of a file and was not returned when it is
// truncated, and does not delete the file with its new content.
func TestTruncatedUnread(t *testing.T) {
	folder(t, "a.log", "1\n2\n3\n4")
	r := newReading(t, `{"paths": "a.log", "idle": "1h", "rescan": "1ms", "follow": true, "settled": "delete"}`, nil)
	messages := r.messages(1)
	write(t, "a.log", "5\n")
	messages = append(messages, r.messages(4)...)
	same(t, "all", r.text(messages), "a.log:1 1\na.log:2 2\na.log:3 3\nerror: a.log:4: the file was truncated within the record\na.log:1 5")
	r.settle(messages[:4])
	r.settle(messages[4:])
	if got := paths(t, "."); got != "a.log" {
		t.Errorf("there is %q", got)
	}
}

// TestPastIsBounded forgets the oldest of many files that are gone.
func TestPastIsBounded(t *testing.T) {
	folder(t)
	config := `{"paths": "app*", "idle": "0s"}`
	r := newReading(t, config, nil)
	r.close()
	const many = 2 * maxPast
	for i := range many {
		write(t, fmt.Sprintf("app-%d.log", i), fmt.Sprintf("%d\n", i))
	}
	r = newReading(t, `{"paths": "app*", "idle": "0s", "rescan": "1ms", "follow": true}`, nil)
	r.read(many)
	for i := range many {
		if err := os.Remove(fmt.Sprintf("app-%d.log", i)); err != nil {
			t.Fatal(err)
		}
	}
	for len(r.source.mu.tails) > 0 {
		r.idle()
	}
	write(t, "app", "last\n")
	r.read(1)
	if n := len(r.marks); n != maxPast+1 {
		t.Errorf("got %d positions, want %d", n, maxPast+1)
	}
	if p := r.source.mu.past; len(p.byKey) != maxPast || len(p.byPath) != maxPast || p.oldest.Len() != maxPast || len(r.source.mu.cuts) > maxPast+1 {
		t.Errorf("got %d, %d, %d entries and %d cuts", len(p.byKey), len(p.byPath), p.oldest.Len(), len(r.source.mu.cuts))
	}
}
