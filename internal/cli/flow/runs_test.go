package flow

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

// writeJournal makes a journal with runs of a trigger; the first one has failed, and has records.
func writeJournal(t *testing.T, name string, runs, records int) (first journal.ID) {
	t.Helper()
	store, err := sqlite.Open(name, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	id := func(i int) (id journal.ID) {
		binary.BigEndian.PutUint64(id[:], uint64(i+1))
		return id
	}
	b := &journal.Batch{}
	for i := range runs {
		b.Starts = append(b.Starts, &journal.Run{ID: id(i), Namespace: "default", Trigger: "shop's id", Level: 2, State: journal.Running, Input: []byte{1}, Created: now})
	}
	for n := range records {
		b.Records = append(b.Records, journal.Record{Run: id(0), N: int32(n + 1), Pos: uint64(n + 1), Node: "charge", Op: 2, Payload: []byte{1}, At: now})
	}
	b.Ends = []journal.End{{Run: id(0), State: journal.Failed, Error: "no\x1b[2J money\nand more", At: now.Add(1500 * time.Millisecond)}}
	if err := store.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return id(0)
}

// TestRunsOfFile lists and shows all pages of a journal that no program has.
func TestRunsOfFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.db")
	first := uuid.UUID(writeJournal(t, name, 450, 1200)).String()
	f := func(args ...string) (out, errs string) {
		t.Helper()
		code, out, errs := apptest.Execute(t, root, nil, append(append([]string{"runs"}, args...), "--journal", "sqlite:"+name)...)
		if code != 0 {
			t.Errorf("%v: got exit code %d: %s", args, code, errs)
		}
		return out, errs
	}
	out, errs := f("list", "--limit", "430")
	if lines := strings.Count(out, "\n"); lines != 431 || !strings.Contains(errs, "there are more") {
		t.Errorf("got %d lines, %s", lines, errs)
	}
	if out, errs := f("list", "--limit", "450"); strings.Count(out, "\n") != 451 || errs != "" {
		t.Errorf("got %d lines, %s", strings.Count(out, "\n"), errs)
	}
	out, _ = f("list", "--state", "failed")
	if lines := strings.Split(out, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], first+"  failed  shop's id  checkpoint  ") || !strings.HasSuffix(lines[1], `1.50 s  no\x1b[2J money`) {
		t.Errorf("got %s", out)
	}
	if out, _ := f("list", "--trigger", "shop's name", "--json"); out != "[]\n" {
		t.Errorf("got %s", out)
	}
	out, _ = f("show", first, "--json")
	var run api.RunDetail
	if err := json.Unmarshal([]byte(out), &run); err != nil || len(run.Records) != 1200 || run.Records[1199].N != 1200 || run.Next != 0 || run.Run.State != "failed" {
		t.Errorf("got %d records, %v", len(run.Records), err)
	}
	out, _ = f("show", first)
	if strings.Count(out, "\n") != 1200+9 || !strings.Contains(out, "\n1200  charge  result  error          20") || !strings.Contains(out, "\nerror    no\\x1b[2J money") {
		t.Errorf("got %s", out)
	}
	// Its payloads cannot be decoded.
	code, _, errs := apptest.Execute(t, root, nil, "runs", "show", first, "--payloads", "--journal", "sqlite:"+name)
	if code != 3 || !strings.Contains(errs, "what it began with") {
		t.Errorf("got %d %s", code, errs)
	}
}

// TestJournalCheck finds damage in the file of a journal.
func TestJournalCheck(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.db")
	writeJournal(t, name, 300, 300)
	f := func(file string, wantCode int, want string) {
		t.Helper()
		code, out, errs := apptest.Execute(t, root, nil, "journal", "check", file)
		if code != wantCode || !strings.Contains(out+errs, want) || strings.Contains(out, "***") {
			t.Errorf("got %d %s%s, want %d %s", code, out, errs, wantCode, want)
		}
	}
	f(name, 0, name+": no damage\n")
	f("sqlite:"+name, 0, name+": no damage\n")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(damaged, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const page = 4096
	for at := page; at < len(whole); at += page {
		data := append([]byte(nil), whole...)
		for i := range 8 {
			data[at+i] ^= 0xff
		}
		write(data)
		f(damaged, 1, damaged)
	}
	write(whole[:len(whole)/2])
	f(damaged, 1, damaged)
	write([]byte("SQLite format 4"))
	f(damaged, 1, "is not a journal")
	write(nil)
	f(damaged, 1, "it is empty")
	if info, err := os.Stat(damaged); err != nil || info.Size() != 0 {
		t.Errorf("an empty file was written: %v, %v", info.Size(), err)
	}
	f(damaged+"2", 1, "no such file")
}

// TestRunsActions sends changes of runs to a program, and explains why one is refused.
func TestRunsActions(t *testing.T) {
	const id = "0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71"
	var asked, answer string
	status := http.StatusOK
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = strings.TrimSpace(r.URL.Path + " " + string(body))
		w.WriteHeader(status)
		if _, err := io.WriteString(w, answer); err != nil {
			t.Error(err)
		}
	}))
	defer program.Close()
	f := func(wantCode int, want string, args ...string) (text string) {
		t.Helper()
		asked = ""
		code, out, errs := apptest.Execute(t, root, nil, append(append([]string{"runs"}, args...), "--admin", program.Listener.Addr().String())...)
		if code != wantCode || asked != want {
			t.Errorf("%v: got %d, asked %s, want %d, %s: %s", args, code, asked, wantCode, want, errs)
		}
		return out + errs
	}
	file := filepath.Join(t.TempDir(), "payload.json")
	if err := os.WriteFile(file, []byte(`{"n": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	answer = `{"id": "s-1"}`
	if out := f(0, `/api/v1/signals {"event":"paid","key":"k","payload":{"n":1},"keep":"24h0m0s"}`, "signal", "paid", "--key", "k", "--payload", `{"n": 1}`); out != "s-1\n" {
		t.Errorf("got %s", out)
	}
	f(0, `/api/v1/signals {"namespace":"shop","event":"paid","key":"k","id":"s-1","payload":null,"keep":"1h0m0s"}`, "signal", "paid", "--key", "k", "--id", "s-1", "--keep", "1h", "--namespace", "shop")
	answer = `{}`
	if out := f(0, `/api/v1/signals {"token":"t","payload":{"n":1}}`, "signal", "--token", "t", "--payload", "@"+file); out != "" {
		t.Errorf("got %s", out)
	}
	answer = `{"id": "` + id + `", "state": "cancelled"}`
	for _, name := range []string{"cancel", "retry", "restart"} {
		if out := f(0, "/api/v1/runs/"+id+"/"+name, name, id); out != id+"\n" {
			t.Errorf("%s: got %s", name, out)
		}
		if out := f(0, "/api/v1/runs/"+id+"/"+name, name, strings.ToUpper(id), "--json"); !strings.Contains(out, `"state": "cancelled"`) {
			t.Errorf("%s: got %s", name, out)
		}
		f(2, "", name)
		f(2, "", name, "7")
	}
	for got, want := range map[int]int{400: 2, 403: 3, 404: 1, 409: 1, 503: 3} {
		status, answer = got, `{"message": "it is so", "hint": "do that"}`
		if out := f(want, "/api/v1/runs/"+id+"/cancel", "cancel", id); !strings.Contains(out, "it is so") || !strings.Contains(out, "do that") && got != 404 {
			t.Errorf("%d: got %s", got, out)
		}
	}
	status, answer = 404, `{"message": "nothing waits with this token"}`
	if out := f(1, `/api/v1/signals {"token":"t","payload":null}`, "signal", "--token", "t"); !strings.HasPrefix(out, "uniflow: nothing waits with this token\n") {
		t.Errorf("got %s", out)
	}
}
