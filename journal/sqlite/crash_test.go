package sqlite_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/journaltest"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

const (
	killFile  = "JOURNAL_TEST_KILL" // the journal of the child of TestKill
	killFrom  = "JOURNAL_TEST_FROM" // its first batch
	killBatch = 40                  // runs in a batch
)

// TestKill kills a program that commits, several times on one file: what it has acknowledged
// is there, and no batch is there in part.
func TestKill(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	next, seed := 0, time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for range 6 {
		acknowledged := killed(t, name, next, random.IntN(25), time.Duration(random.IntN(5000))*time.Microsecond)
		s := open(t, name)
		whole := wholeBatches(t, s, next)
		if whole < acknowledged {
			t.Errorf("%d batches were acknowledged, %d are there", acknowledged, whole)
		}
		handedOn(t, s, whole)
		if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("Check found %q, %v", found, err)
		}
		shut(t, s)
		next = whole
	}
	t.Logf("%d batches", next)
}

// killWait is a wait of the batch before, whose runs have ended: of a run of the same batch it
// would not be left.
func killWait(i int) journal.Wait { return journaltest.NewWait(max(i-1, 0)*killBatch, uint64(i)) }

// handedOn checks that of some batches the last has the only signal and the only wait.
func handedOn(t *testing.T, s *sqlite.Store, batches int) {
	t.Helper()
	signals, err := s.Untaken(t.Context(), time.Time{})
	if err != nil || batches > 0 && (len(signals) != 1 || signals[0].ID != journaltest.NewSignal(batches-1).ID) {
		t.Errorf("after %d batches there are the signals %+v, %v", batches, signals, err)
	}
	for i := range batches {
		if known, err := s.Known(t.Context(), "shop", journaltest.NewSignal(i).ID); err != nil || !known {
			t.Errorf("the signal of batch %d of %d is not known, %v", i, batches, err)
		}
	}
	for i := 1; i < batches; i++ {
		w := killWait(i)
		waits, err := s.Waiting(t.Context(), w.Namespace, w.Event, w.Key)
		if last := i == batches-1; err != nil || last != (len(waits) == 1) {
			t.Errorf("after %d batches run %d waits for %+v, %v", batches, i, waits, err)
		}
	}
}

// killed runs a child, kills it some time after it has acknowledged some batches, and returns
// how many there are.
func killed(t *testing.T, name string, from, batches int, later time.Duration) (acknowledged int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestKillChild$")
	child.Env = append(os.Environ(), killFile+"="+name, fmt.Sprintf("%s=%d", killFrom, from))
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged = from
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &n); err != nil {
			t.Errorf("the child says %q", lines.Text())
			continue
		}
		acknowledged = n + 1
		if n == from+batches {
			// In the middle of a later commit, which the child does not wait for us to read.
			time.AfterFunc(later, func() {
				if err := child.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Error(err)
				}
			})
		}
	}
	if err := child.Wait(); err == nil {
		t.Error("the child has ended by itself")
	}
	return acknowledged
}

// TestKillChild is the program that TestKill kills. Otherwise it does nothing.
func TestKillChild(t *testing.T) {
	name := os.Getenv(killFile)
	if name == "" {
		return
	}
	var from int
	if _, err := fmt.Sscan(os.Getenv(killFrom), &from); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(name, sqlite.Options{CheckpointBytes: 256 << 10}) // killed in checkpoints, too
	if err != nil {
		t.Fatal(err)
	}
	for i := from; ; i++ {
		b := batch(i*killBatch, killBatch)
		b.Signals, b.Waits = []journal.Signal{journaltest.NewSignal(i)}, []journal.Wait{killWait(i)}
		if i > 0 {
			b.Taken = []journal.SignalID{{Namespace: "shop", ID: journaltest.NewSignal(i - 1).ID}}
			b.Over = []journal.WaitID{{Run: killWait(i - 1).Run, Pos: killWait(i - 1).Pos}}
		}
		commit(t, s, b)
		fmt.Println("acknowledged", i)
	}
}

// wholeBatches returns how many batches are in a journal, from the first on. It fails if one
// of those after some is there in part, or if there are others behind a gap.
func wholeBatches(t *testing.T, s *sqlite.Store, from int) int {
	t.Helper()
	runs, err := s.List(t.Context(), journal.Filter{Limit: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs)%killBatch != 0 {
		t.Errorf("%d runs are no number of whole batches", len(runs))
	}
	n := len(runs) / killBatch
	for i := range runs {
		r := runs[len(runs)-1-i]
		if r.ID != journaltest.ID(i) || r.State != journal.OK {
			t.Fatalf("run %d is %x in the state %v", i, r.ID, r.State)
		}
		if i < from*killBatch {
			continue
		}
		if records, err := s.Records(t.Context(), r.ID); err != nil || len(records) != 1 {
			t.Fatalf("run %d has %d records, %v", i, len(records), err)
		}
	}
	return n
}

// TestTornLog cuts the write-ahead log at any byte, as after a power cut on a disk that has
// written a part: what is left is the first batches, each of them whole.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "j")
	s := open(t, name)
	const batches = 12
	for i := range batches {
		commit(t, s, batch(i*killBatch, killBatch))
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(name + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	// Where the tables are made is the start of the log.
	last, cuts := 0, []int{len(log)}
	for range 12 {
		cuts = append(cuts, len(log)/4+random.IntN(3*len(log)/4))
	}
	for i, cut := range cuts {
		torn := filepath.Join(dir, fmt.Sprint("torn", i))
		part := append([]byte(nil), log[:cut]...)
		if i%2 == 1 { // the rest is what was there before
			part = append(part, make([]byte, min(len(log)-cut, 10_000))...)
		}
		for file, data := range map[string][]byte{torn: file, torn + "-wal": part} {
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, torn)
		n := wholeBatches(t, s, 0)
		if i == 0 && n != batches {
			t.Errorf("the whole log has %d batches, want %d", n, batches)
		}
		last = max(last, n)
		commit(t, s, batch(n*killBatch, killBatch))
		if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("cut at %d of %d: Check found %q, %v", cut, len(log), found, err)
		}
		shut(t, s)
	}
}
