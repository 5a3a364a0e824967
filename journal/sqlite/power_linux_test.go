package sqlite_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

const (
	powerFile    = "JOURNAL_TEST_POWER" // the journal of the child of TestPowerCut
	powerSync    = "JOURNAL_TEST_SYNC"  // its setting synchronous
	powerBatches = 25
)

// TestPowerCut records what a program writes to the files of a journal, and when the disk has it. Then it makes the
// files as a power cut at some moment may leave them: with all that was synced, and any part of the rest. What was
// acknowledged before is there. With synchronous=NORMAL it is not, which shows that the test sees it.
func TestPowerCut(t *testing.T) {
	cuts := 12
	if full() {
		cuts = 300
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	all := recorded(t, "FULL")
	rest, syncs := 0, 0
	for range cuts {
		acknowledged, n, left := cutPower(t, all, rng)
		if n < acknowledged {
			t.Errorf("%d batches were acknowledged, %d are there", acknowledged, n)
		}
		rest += left
	}
	for _, e := range all {
		if e.op == syncing {
			syncs++
		}
	}
	if rest == 0 || syncs < powerBatches {
		t.Errorf("%d writes had not been synced at %d cuts, and there are %d syncs: the record lacks something", rest, cuts, syncs)
	}
	normal, lost := recorded(t, "NORMAL"), 0
	for tries := 0; lost == 0 && tries < 50; tries++ {
		if acknowledged, n, _ := cutPower(t, normal, rng); n < acknowledged {
			lost++
		}
	}
	if lost == 0 {
		t.Errorf("with synchronous=NORMAL nothing is lost: the test would not see it")
	}
	t.Logf("%d cuts, %d writes lost or torn, %d syncs", cuts, rest, syncs)
}

// TestPowerChild is the program that TestPowerCut records. Otherwise it does nothing.
func TestPowerChild(t *testing.T) {
	name := os.Getenv(powerFile)
	if name == "" {
		return
	}
	s, err := sqlite.Open(name, sqlite.Options{CheckpointBytes: 256 << 10}) // cut in checkpoints, too
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pragma("synchronous = " + os.Getenv(powerSync)); err != nil {
		t.Fatal(err)
	}
	for i := range powerBatches {
		commit(t, s, batch(i*killBatch, killBatch))
		fmt.Println("acknowledged", i)
	}
	os.Exit(0) // Close would copy the log and remove it
}

// The operations of a recorded program.
const (
	writing byte = iota
	truncating
	syncing
	acknowledging
)

// An operation is what a recorded program did to a file.
type operation struct {
	op     byte
	file   string
	at     int64 // of a write; the size to truncate to
	data   []byte
	synced int // of a write: the index of the operation by which the disk has it; 0 for never
	over   int // of a sync: the index of the operation before which it has returned; 0 for never
}

var (
	begun   = regexp.MustCompile(`^(\d+) +(\w+)\((\d+)<([^>]*)>(?:, "([^"]*)", (\d+)(?:, (\d+))?|, (\d+))?(?:\) += (-?\d+)| <unfinished)`)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>.*\) += (-?\d+)`)
)

// recorded runs the child with a setting, and returns what it did, in order.
func recorded(t *testing.T, synchronous string) (all []operation) {
	t.Helper()
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	child := exec.CommandContext(t.Context(), "strace", "-f", "-y", "-xx", "-s", "10000000", "-o", trace,
		"-e", "trace=write,pwrite64,ftruncate,fsync,fdatasync", os.Args[0], "-test.run=^TestPowerChild$")
	child.Env = append(os.Environ(), powerFile+"="+filepath.Join(dir, "j"), powerSync+"="+synchronous)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("strace (make needs installs it): %v: %s", err, out)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	pending := make(map[string]int) // by thread: the index of a sync that has not returned
	for line := range strings.Lines(string(text)) {
		if m := resumed.FindStringSubmatch(line); m != nil {
			if i, ok := pending[m[1]]; ok && m[3] == "0" {
				all[i].over = len(all)
			}
			delete(pending, m[1])
			continue
		}
		m := begun.FindStringSubmatch(line)
		if m == nil {
			if strings.Contains(line, "(") && !strings.Contains(line, "+++") && !strings.Contains(line, "---") {
				t.Fatalf("not understood: %.200s", line)
			}
			continue
		}
		o := operation{file: filepath.Base(string(unhex(t, m[4]))), data: unhex(t, m[5])}
		switch kept := o.file == "j" || o.file == "j-wal"; {
		case kept && m[2] == "pwrite64":
			o.op, o.at = writing, number(t, m[7])
		case kept && m[2] == "ftruncate":
			o.op, o.at = truncating, number(t, m[8])
		case kept && strings.HasSuffix(m[2], "sync"):
			o.op = syncing
			if m[9] == "0" {
				o.over = len(all) + 1
			} else {
				pending[m[1]] = len(all)
			}
		case kept:
			t.Fatalf("a call that the test does not know: %.200s", line)
		case m[3] == "1" && strings.HasPrefix(string(o.data), "acknowledged"):
			o.op = acknowledging
		default:
			continue
		}
		all = append(all, o)
	}
	for i, s := range all {
		if s.op != syncing || s.over == 0 {
			continue
		}
		for j := range all[:i] {
			if w := &all[j]; w.file == s.file && w.synced == 0 {
				w.synced = s.over
			}
		}
	}
	return all
}

// unhex decodes a text of strace.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	if !strings.HasPrefix(text, `\x`) {
		return []byte(text)
	}
	data, err := hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cutPower makes the files as the disk may have them when the power goes at a random operation. It returns how many
// batches were acknowledged before, how many are there, and how many writes the disk did not have in full.
func cutPower(t *testing.T, all []operation, rng *rand.Rand) (acknowledged, there, rest int) {
	t.Helper()
	cut := rng.IntN(len(all) + 1)
	for rng.IntN(2) == 0 && cut > 0 && all[cut-1].op != acknowledging { // half of them closer to an acknowledgement
		cut--
	}
	share := rng.IntN(4) // how many of four writes reach the disk without a sync
	files := map[string][]byte{"j": nil, "j-wal": nil}
	for _, o := range all[:cut] {
		switch o.op {
		case acknowledging:
			acknowledged++
			continue
		case syncing:
			continue
		}
		if o.synced == 0 || o.synced > cut {
			switch {
			case rng.IntN(4) < share: // as good as synced
			case o.op == truncating || rng.IntN(2) == 0:
				rest++
				continue
			default: // torn between two sectors
				rest++
				o.data = o.data[:rng.IntN(len(o.data)/512+1)*512]
			}
		}
		data := files[o.file]
		size := max(int64(len(data)), o.at+int64(len(o.data)))
		if o.op == truncating {
			size = o.at
		}
		if more := size - int64(len(data)); more > 0 {
			data = append(data, make([]byte, more)...)
		}
		data = data[:size]
		copy(data[o.at:], o.data)
		files[o.file] = data
	}
	dir, err := os.MkdirTemp(t.TempDir(), "cut")
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range files {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, filepath.Join(dir, "j"))
	there = wholeBatches(t, s, 0)
	commit(t, s, batch(there*killBatch, killBatch))
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("cut at %d of %d: Check found %q, %v", cut, len(all), found, err)
	}
	shut(t, s)
	return acknowledged, there, rest
}
