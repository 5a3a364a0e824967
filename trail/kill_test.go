package trail

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// The environment of a child of TestKill.
const (
	childDir   = "TRAIL_KILL_DIR"
	childRound = "TRAIL_KILL_ROUND"
)

const (
	writers    = 4
	importRows = 300
)

func killOptions(round int) Options {
	return Options{Bucket: 24 * time.Hour, FlushRows: 3000, FlushEvery: 40 * time.Millisecond, NoSync: round%2 == 0, rows: 5000}
}

// eventOf returns the n-th event of a writer: its user, time, id and one property
// depend on both numbers. Events of odd writers have no id, so that nothing but the store
// keeps them from being there twice.
func eventOf(writer, n int) event.Event {
	e := ev(fmt.Sprintf("w%d-%d", writer, n%7), day(int64(n%5))+int64(n), "write",
		prop("writer", event.IntOf(int64(writer))), prop("n", event.IntOf(int64(n))))
	if writer%2 == 0 {
		e.ID = fmt.Sprintf("%d/%d", writer, n)
	}
	return e
}

// childMain works on a store until it is killed. It prints what was acknowledged.
func childMain(dir string) {
	round, err := strconv.Atoi(os.Getenv(childRound))
	if err != nil {
		panic(err)
	}
	s, err := Open(dir, killOptions(round))
	if err != nil {
		fmt.Println("fatal", err)
		os.Exit(1)
	}
	var out sync.Mutex
	say := func(words ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(words...)
	}
	check := func(err error) {
		if err != nil {
			say("fatal", err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			source := fmt.Sprint("w", w)
			n := 0
			if mark := s.Mark(source); mark != nil {
				n, _ = strconv.Atoi(string(mark)) // the parent checks marks
			}
			lot := rand.New(rand.NewPCG(uint64(round), uint64(w)))
			for {
				batch := make([]event.Event, 1+lot.IntN(60))
				for i := range batch {
					batch[i] = eventOf(w, n+i)
				}
				n += len(batch)
				check(s.AppendMarked(ctx, batch, source, strconv.AppendInt(nil, int64(n), 10)))
				say("ack", w, n)
			}
		})
	}
	wg.Go(func() {
		for i := 0; ; i++ {
			check(s.Flush(ctx))
			if i%3 == 0 {
				check(s.Compact(ctx, nil))
			}
			user := fmt.Sprintf("gone-%d-%d", round, i)
			check(s.Append(ctx, []event.Event{ev(user, day(1), "gone"), ev(user, day(4), "gone")}))
			_, err := s.DeleteUser(ctx, user)
			check(err)
			say("deleted", user)
		}
	})
	wg.Go(func() {
		for i := 0; ; i++ {
			name := fmt.Sprintf("import-%d-%d", round, i)
			path := filepath.Join(dir, "..", name+".csv")
			var b strings.Builder
			b.WriteString("user,time,event,file\n")
			for r := range importRows {
				fmt.Fprintf(&b, "i%d,%d,import,%s\n", r%11, day(int64(r%6))+int64(r), name)
			}
			check(os.WriteFile(path, []byte(b.String()), 0o600))
			say("begin", name)
			_, err := s.Import(ctx, []string{path}, ImportOptions{TimeUnit: "ms"})
			check(err)
			say("imported", name)
		}
	})
	wg.Wait()
}

// acknowledged is what the children have reported.
type acknowledged struct {
	written  [writers]int
	imported map[string]bool // false if it was only begun
	deleted  map[string]bool
}

// TestKill kills a process that works on a store in every way concurrently, again and
// again, and looks for what it had acknowledged.
func TestKill(t *testing.T) {
	rounds := 4
	if os.Getenv("TRAIL_FAULTS") == "full" {
		rounds = 200
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	lot := rand.New(rand.NewPCG(seed, 1))
	dir := filepath.Join(t.TempDir(), "store")
	ack := acknowledged{imported: make(map[string]bool), deleted: make(map[string]bool)}
	for round := range rounds {
		runChild(t, dir, round, time.Duration(50+lot.IntN(600))*time.Millisecond, &ack)
		if t.Failed() {
			return
		}
		wantSound(t, dir)
		s, err := Open(dir, killOptions(round))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		checkAcknowledged(t, s, &ack)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
		if round%10 == 9 { // what was checked need not be checked again
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			ack = acknowledged{imported: make(map[string]bool), deleted: make(map[string]bool)}
		}
	}
}

func runChild(t *testing.T, dir string, round int, life time.Duration, ack *acknowledged) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childRound+"="+strconv.Itoa(round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if timer == nil { // its life begins with the first word
			timer = time.AfterFunc(life, func() { _ = cmd.Process.Kill() }) // it may have ended by itself
			defer timer.Stop()
		}
		w := strings.Fields(lines.Text())
		switch {
		case len(w) == 3 && w[0] == "ack":
			i, _ := strconv.Atoi(w[1])
			ack.written[i], _ = strconv.Atoi(w[2])
		case len(w) == 2 && w[0] == "begin":
			ack.imported[w[1]] = false
		case len(w) == 2 && w[0] == "imported":
			ack.imported[w[1]] = true
		case len(w) == 2 && w[0] == "deleted":
			ack.deleted[w[1]] = true
		case len(w) > 0 && w[0] == "fatal":
			t.Errorf("child of round %d: %s", round, lines.Text())
		}
	}
	_ = cmd.Wait() // it was killed
}

// checkAcknowledged reads every event of the store.
func checkAcknowledged(t *testing.T, s *Store, ack *acknowledged) {
	t.Helper()
	if got := s.Info().Damaged; len(got) > 0 {
		t.Errorf("got %q of a store that is sound", got)
	}
	var marks [writers]int
	seen := make([]map[int64]int, writers)
	for w := range writers {
		seen[w] = make(map[int64]int)
		if mark := s.Mark(fmt.Sprint("w", w)); mark != nil {
			n, err := strconv.Atoi(string(mark))
			if err != nil {
				t.Fatal(err)
			}
			marks[w] = n
		}
		if marks[w] < ack.written[w] {
			t.Errorf("writer %d: got the mark %d, and %d was acknowledged", w, marks[w], ack.written[w])
		}
	}
	files := make(map[string]int)
	total := eachRow(t, s, func(r *cursor, schema event.Schema, values []event.Value) {
		value := func(name string) event.Value {
			if i := schema.Index(name); i >= 0 {
				return values[i]
			}
			return event.Value{}
		}
		switch r.name() {
		case "write":
			w, n := value("writer").Int(), value("n").Int()
			want := eventOf(int(w), int(n))
			if want.User != r.user || want.Time != r.time() || event.HashID(want.ID) != r.id() {
				t.Errorf("got %s at %d for event %d of writer %d", r.user, r.time(), n, w)
			}
			seen[w][n]++
		case "import":
			files[strings.Clone(value("file").Text())]++ // the map may go
		case "gone":
			if ack.deleted[r.user] {
				t.Errorf("user %s was deleted, and is there", r.user)
			}
		}
	})
	for w := range writers {
		if len(seen[w]) != marks[w] {
			t.Errorf("writer %d: got %d events, want %d", w, len(seen[w]), marks[w])
		}
		for n, times := range seen[w] {
			if times != 1 || n >= int64(marks[w]) {
				t.Fatalf("writer %d: got event %d %d times, with the mark %d", w, n, times, marks[w])
			}
		}
	}
	for name, done := range ack.imported {
		if n := files[name]; n != importRows && (n != 0 || done) {
			t.Errorf("%s: got %d rows of %d, acknowledged %v", name, n, importRows, done)
		}
	}
	if got := count(t, s); got != total {
		t.Errorf("a query counts %d events, and there are %d", got, total)
	}
}

// eachRow calls f with each event that counts, and returns how many there are.
func eachRow(t testing.TB, s *Store, f func(c *cursor, schema event.Schema, values []event.Value)) int64 {
	t.Helper()
	sn, err := s.state.view()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.unpin()
	var total int64
	var values []event.Value
	for _, in := range sn.input {
		c, err := openCursor(in.Segment, sn.schema, in.Dropped, s.state.horizonAt(sn.horizon))
		if err != nil {
			t.Fatal(err)
		}
		for {
			ok, err := c.next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			total++
			values = c.values(values[:0])
			f(c, sn.schema, values)
		}
	}
	return total
}
