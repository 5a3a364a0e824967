package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestEventBytes(t *testing.T) {
	for _, pad := range []int{0, 1, 9, 10, 11, 4000} {
		want := Event{ID: 7, Key: 3, Seq: 2, Pad: pad}
		raw := want.Append(nil)
		got, err := Parse(raw)
		if err != nil || got != want {
			t.Fatalf("Parse: got %v, %v, want %v", got, err, want)
		}
		for i := range raw {
			raw[i] ^= 1
			if e, err := Parse(raw); err == nil && e == want {
				t.Fatalf("pad %d, byte %d flipped: not noticed", pad, i)
			}
			raw[i] ^= 1
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"id":1,"key":2,"seq":3,"len":0,"pad":""}`))
	f.Add(Event{ID: 1 << 63, Pad: 33}.Append(nil))
	f.Add([]byte(`{"id":1,"key":2,"seq":3,"len":99999999999999999999,"pad":""}`))
	f.Add([]byte(`{"id":`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := Parse(raw)
		if err == nil && !bytes.Equal(e.Append(nil), raw) {
			t.Errorf("Parse(%q): got %v", raw, e)
		}
	})
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("{}\n{}\n"), false)
	f.Add([]byte(`[{},1, "x"]`), true)
	f.Add([]byte(``), false)
	f.Fuzz(func(t *testing.T, body []byte, array bool) {
		kind := "application/x-ndjson"
		if array {
			kind = "application/json; charset=utf-8"
		}
		events, err := Split(body, kind)
		if err == nil && len(events) == 0 {
			t.Errorf("Split(%q): no events and no error", body)
		}
	})
}

// lines returns n new events of one key, and a body with them.
func lines(l *Ledger, n int) ([]*Event, []byte) {
	var events []*Event
	var body []byte
	for range n {
		e := l.Next(1, 50)
		events = append(events, e)
		body = append(e.Append(body), '\n')
	}
	return events, body
}

func post(t *testing.T, url, key, encoding string, body []byte) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, struct{ io.Reader }{bytes.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/x-ndjson")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	answer, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func TestServerTakesOnce(t *testing.T) {
	var l Ledger
	s := NewServer(t, NewStore(Rules{}), nil)
	events, body := lines(&l, 3)
	for i, want := range []string{`{"accepted":3,"duplicate":false}`, `{"accepted":3,"duplicate":true}`} {
		status, got, err := post(t, s.URL, "p/1/0/1", "", body)
		if status != 200 || got != want || err != nil {
			t.Fatalf("post %d: got %d %s, %v, want %s", i, status, got, err, want)
		}
	}
	for _, e := range events {
		l.Added(e, nil)
	}
	Check(t, s.Store, &l, Promise{Once: true, Order: true})
	if v := s.Visits(); len(v) != 2 || v[0].Events != 3 || !v[1].Took || v[0].Bytes != len(body) {
		t.Errorf("got visits %v", v)
	}
	if s.Store.Events() != 3 || s.Store.Duplicates() != 1 || !s.Store.Has(2) || s.Store.Has(4) {
		t.Errorf("got %d events, %d duplicates, want 3, 1", s.Store.Events(), s.Store.Duplicates())
	}
}

func TestServerDecodes(t *testing.T) {
	var l Ledger
	s := NewServer(t, NewStore(Rules{MaxBytes: 1000}), nil)
	events, body := lines(&l, 3)
	var g bytes.Buffer
	w := gzip.NewWriter(&g)
	if _, err := w.Write(body); err != nil || w.Close() != nil {
		t.Fatal("gzip")
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := z.EncodeAll(body, nil)
	bomb := z.EncodeAll(make([]byte, 5000), nil)
	for _, c := range []struct {
		key, encoding string
		body          []byte
		want          int
	}{
		{"p/1/0/1", "gzip", g.Bytes(), 200},
		{"p/1/0/1", "zstd", packed, 200}, // the same content, so the same batch
		{"p/1/0/2", "zstd", bomb, 413},
		{"p/1/0/2", "", make([]byte, 1001), 413},
	} {
		if got, text, err := post(t, s.URL, c.key, c.encoding, c.body); got != c.want || err != nil {
			t.Errorf("%s: got %d %s, %v, want %d", c.encoding, got, text, err, c.want)
		}
	}
	for _, e := range events {
		l.Added(e, nil)
	}
	Check(t, s.Store, &l, Promise{Once: true, Order: true})
}

func TestScript(t *testing.T) {
	open := make(chan struct{})
	close(open)
	for _, c := range []struct {
		name   string
		act    Act
		status int  // 0: an error
		took   bool // the store has it
	}{
		{"healthy", Act{}, 200, true},
		{"waits", Act{Wait: open, Rate: 100_000}, 200, true},
		{"deny", Act{At: BeforeTake, Do: Deny, Status: 429, RetryAfter: "2"}, 429, false},
		{"deny after", Act{At: AfterTake, Do: Deny}, 503, true},
		{"early", Act{At: AtHead, Do: Deny, Status: 413}, 413, false},
		{"reset at head", Act{At: AtHead, Do: Reset}, 0, false},
		{"reset in body", Act{At: AtBody, Bytes: 100, Do: Reset}, 0, false},
		{"reset before", Act{At: BeforeTake, Do: Reset}, 0, false},
		{"reset after", Act{At: AfterTake, Do: Reset}, 0, true},
		{"cut after", Act{At: AfterTake, Do: Cut}, 0, true},
		{"torn answer", Act{At: AfterTake, Do: Tear}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Ledger
			s := NewServer(t, NewStore(Rules{}), func(*Request) Act { return c.act })
			_, body := lines(&l, 4)
			status, text, err := post(t, s.URL, "p/1/0/1", "", body)
			if (c.status == 0) != (err != nil) || err == nil && status != c.status {
				t.Errorf("got %d %q, %v, want %d", status, text, err, c.status)
			}
			if got := s.Store.Has(1); got != c.took {
				t.Errorf("taken: got %t, want %t", got, c.took)
			}
		})
	}
}

func TestRules(t *testing.T) {
	var l Ledger
	store := NewStore(Rules{
		Poison:    func(e Event) bool { return e.ID == 2 },
		Verdict:   func(e Event) (string, bool) { return map[uint64]string{3: "bad"}[e.ID], false },
		MaxEvents: 2,
	})
	var raws [][]byte
	for range 4 {
		raws = append(raws, l.Next(1, 10).Append(nil))
	}
	for i, c := range []struct {
		raws [][]byte
		want int
		took int
	}{
		{raws[:3], 413, 0}, {raws[:2], 400, 0}, {raws[:1], 200, 1}, {raws[2:], 200, 1},
	} {
		if a, got := store.Take(fmt.Sprintf("p/1/0/%d", i), c.raws); got != c.want || a.Accepted != c.took {
			t.Errorf("%d: got %d, %+v, want %d, %d taken", i, got, a, c.want, c.took)
		}
	}
	got := strings.Join(Judge(store, &l, Promise{}), "; ")
	if want := "event 3: refused by the store, and not reported"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestJudge shows that each kind of broken promise is found.
func TestJudge(t *testing.T) {
	no := errors.New("no")
	for _, c := range []struct {
		name string
		run  func(l *Ledger, s *Store, e []*Event, raw [][]byte)
		p    Promise
		want string
	}{
		{"nothing wrong", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			s.Take("p/1/0/1", raw[:2])
			l.Added(e[0], nil)
			l.Added(e[1], nil)
			l.Added(e[2], no)
		}, Promise{Once: true, Order: true}, ""},
		{"lost", func(l *Ledger, s *Store, e []*Event, raw [][]byte) { l.Added(e[0], nil) }, Promise{}, "neither taken nor reported"},
		{"kept", func(l *Ledger, s *Store, e []*Event, raw [][]byte) { l.Added(e[0], nil) }, Promise{Kept: 1}, ""},
		{"kept, but there", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {}, Promise{Kept: 1}, "want 1 to 1"},
		{"rejected and taken", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			l.Added(e[0], no)
			s.Take("p/1/0/1", raw[:1])
		}, Promise{}, "the store took it"},
		{"twice", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			s.Take("p/1/0/1", raw[:1])
			s.Take("p/1/0/2", raw[:1])
		}, Promise{Once: true}, "taken 2 times"},
		{"disorder", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			s.Take("p/1/0/1", raw[1:2])
			s.Take("p/1/0/2", raw[:1])
		}, Promise{Order: true}, "order: batch"},
		{"disorder that was not promised", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			s.Take("p/1/0/1", raw[1:2])
			s.Take("p/1/0/2", raw[:1])
		}, Promise{}, ""},
		{"another batch of the key", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			s.Take("p/1/0/1", raw[:1])
			s.Take("p/1/0/1", raw[1:2])
		}, Promise{}, "taken with other events"},
		{"corrupt", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			raw[0][len(raw[0])-4]++
			s.Take("p/1/0/1", raw[:1])
		}, Promise{}, "corrupt"},
		{"dropped and taken", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			l.Added(e[0], nil)
			l.Dropped(raw[0], "full")
			s.Take("p/1/0/1", raw[:1])
		}, Promise{}, "taken 1 times, and reported"},
		{"dropped twice", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			l.Dropped(raw[0], "full")
			l.Dropped(raw[0], "expired")
		}, Promise{}, "dropped as full, then as expired"},
		{"dropped and returned", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			l.Dropped(raw[0], "full")
			l.Returned(raw[0])
		}, Promise{}, "and returned by Close"},
		{"foreign", func(l *Ledger, s *Store, e []*Event, raw [][]byte) {
			s.Take("p/1/0/1", [][]byte{Event{ID: 99}.Append(nil)})
		}, Promise{}, "never made"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Ledger
			s := NewStore(Rules{})
			var events []*Event
			var raws [][]byte
			for range 3 {
				events = append(events, l.Next(5, 20))
				raws = append(raws, events[len(events)-1].Append(nil))
			}
			c.run(&l, s, events, raws)
			got := Judge(s, &l, c.p)
			if (len(got) == 0) != (c.want == "") || !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("got %q, want one with %q", got, c.want)
			}
		})
	}
}

func TestProxy(t *testing.T) {
	for _, c := range []struct {
		name string
		plan faultproxy.Plan
		act  Act
		ok   bool
		took bool
	}{
		{"pass", faultproxy.Plan{}, Act{}, true, true},
		{"slow", faultproxy.Plan{Up: faultproxy.Leg{Rate: 1 << 20}, Down: faultproxy.Leg{Delay: 1}}, Act{}, true, true},
		{"severed immediately", faultproxy.Plan{Up: faultproxy.Leg{Do: faultproxy.Sever}}, Act{}, false, false},
		{"severed in the body", faultproxy.Plan{Up: faultproxy.Leg{Do: faultproxy.Sever, After: 1000}}, Act{}, false, false},
		{"half closed in the body", faultproxy.Plan{Up: faultproxy.Leg{Do: faultproxy.Half, After: 1000}}, Act{}, false, false},
		{"answer severed", faultproxy.Plan{Down: faultproxy.Leg{Do: faultproxy.Sever, After: 20}}, Act{}, false, true},
		{"answer cut", faultproxy.Plan{Down: faultproxy.Leg{Do: faultproxy.Half, After: 5}}, Act{}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Ledger
			s := NewServer(t, NewStore(Rules{}), func(*Request) Act { return c.act })
			p := faultproxy.New(t, s.Addr, func(int) faultproxy.Plan { return c.plan })
			_, body := lines(&l, 40)
			status, _, err := post(t, "http://"+p.Addr+"/batch", "p/1/0/1", "", body)
			if (err == nil) != c.ok {
				t.Errorf("got %d, %v, want success %t", status, err, c.ok)
			}
			p.Close()
			s.Close() // so that what is on the way has arrived
			if got := s.Store.Has(1); got != c.took {
				t.Errorf("taken: got %t, want %t", got, c.took)
			}
		})
	}
}

// TestHang shows that what never answers can be ended, from either side.
func TestHang(t *testing.T) {
	var l Ledger
	s := NewServer(t, NewStore(Rules{}), func(*Request) Act { return Act{At: AfterTake, Do: Hang} })
	p := faultproxy.New(t, s.Addr, func(n int) faultproxy.Plan {
		return []faultproxy.Plan{{}, {Up: faultproxy.Leg{Do: faultproxy.Hole, After: 100}}}[(n-1)%2]
	})
	_, body := lines(&l, 4)
	client := make(chan error, 2)
	var work sync.WaitGroup
	defer work.Wait()
	for range 2 {
		work.Go(func() {
			_, _, err := post(t, "http://"+p.Addr+"/batch", "", "", body)
			client <- err
		})
	}
	for len(s.Visits()) == 0 {
		runtime.Gosched()
	}
	p.Break()
	p.Close()
	for range 2 {
		if err := <-client; err == nil {
			t.Error("got an answer, want none")
		}
	}
}
