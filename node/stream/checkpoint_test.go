package stream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// checkpointed is a source of two lanes whose positions are in a file.
func checkpointed(file string) (*broker, string) {
	s := newBroker(stream.Traits{Lanes: true, Positions: true, Checkpoints: true})
	s.numbers(0, 0, 10)
	s.numbers(1, 10, 10)
	return s, "- {kind: mem, name: s, checkpoint: {file: " + file + ", interval: 1ms}, order: total, ports: {out: [{name: t}]}}\n- {kind: take, name: t}\n"
}

// withHint returns an error with its hint.
func withHint(err error) string {
	d, ok := errors.AsType[*diag.Diagnostic](err)
	if !ok {
		return fmt.Sprint(err)
	}
	return err.Error() + "; " + d.Hint
}

// TestDamagedCheckpoint changes each bit of a file of positions: the start is refused, with
// what to do, or the positions are those that were kept.
func TestDamagedCheckpoint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "positions.json")
	s, document := checkpointed(file)
	r := start(t, s, document, nil)
	r.until("all to be settled", s.settledAll)
	r.shutdown(time.Second)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, want, err := stream.ReadKept(whole)
	if err != nil || fmt.Sprint(want) != "map[0:10 1:10]" {
		t.Fatalf("got %v, %v of\n%s", want, err, whole)
	}
	same := 0
	for i := range whole {
		for bit := range 8 {
			text := []byte(string(whole))
			text[i] ^= 1 << bit
			owner, got, err := stream.ReadKept(text)
			if err != nil {
				continue
			}
			if same++; fmt.Sprint(owner, got) != `the mem "s" `+fmt.Sprint(want) {
				t.Errorf("bit %d of byte %d: got %v %v of\n%s", bit, i, owner, got, text)
			}
		}
	}
	if same > len(whole) { // white space, and letters of the names of fields
		t.Errorf("got %d damages of %d that change nothing", same, 8*len(whole))
	}
	for n := range whole {
		if _, got, err := stream.ReadKept(whole[:n]); err == nil && n < len(whole)-1 {
			t.Errorf("got %v of the first %d bytes", got, n)
		}
	}
	for text, want := range map[string]string{
		strings.Replace(string(whole), `"10"`, `"90"`, 1):     "its checksum does not fit",
		strings.Replace(string(whole), `"sum"`, `"summe"`, 1): "unknown field",
		string(whole) + "{":                  "after its end",
		strings.Split(string(whole), `,`)[0]: "is damaged",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := start(t, s, "- {kind: nop, name: n}\n", nil)
		_, err := r.apply(document)
		if got := withHint(err); !strings.Contains(got, want) || !strings.Contains(got, "t.yaml:1:43: checkpoint.file") || !strings.Contains(got, "remove it to read from the beginning") {
			t.Errorf("got %s, want %q, of\n%s", got, want, text)
		}
	}
}

// TestCheckpointFromBefore goes on with the positions of a revision without checksums, and
// replaces the file at the first commit.
func TestCheckpointFromBefore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "positions.json")
	before := "{\n  \"positions\": {\n    \"0\": \"10\",\n    \"1\": \"8\"\n  }\n}\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	s, document := checkpointed(file)
	r := start(t, s, document, nil)
	r.until("the rest to be settled", s.settledAll)
	r.want("in 18", "in 19")
	r.shutdown(time.Second)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	owner, got, err := stream.ReadKept(text)
	if err != nil || fmt.Sprint(owner, got) != `the mem "s" map[0:10 1:10]` {
		t.Errorf("got %v %v, %v of\n%s", owner, got, err, text)
	}
}

// TestCheckpointOfAnother refuses the positions of another source, unless they are handed
// over.
func TestCheckpointOfAnother(t *testing.T) {
	file := filepath.Join(t.TempDir(), "positions.json")
	s, document := checkpointed(file)
	r := start(t, s, document, nil)
	r.until("all to be settled", s.settledAll)
	r.shutdown(time.Second)
	s, document = checkpointed(file)
	document = strings.Replace(document, "name: s,", "name: other,", 1)
	r = start(t, s, "- {kind: nop, name: n}\n", nil)
	_, err := r.apply(document)
	for _, want := range []string{`has the positions of the mem "s", and not of the mem "other"`, "remove source and sum", "checkpoint.file"} {
		if got := withHint(err); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "source")
	delete(fields, "sum")
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.numbers(1, 20, 1)
	r = start(t, s, document, nil)
	r.until("the rest to be settled", s.settledAll)
	r.want("in 20")
}
