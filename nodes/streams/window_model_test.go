package streams_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A model says what a window node has to send, in the simplest way: it has a list of windows, and looks
// at all of them for each event. Times are milliseconds.
type model struct {
	size, slide, gap, late, idle int64
	max                          int
	early, fold                  bool

	now, last, highest, mark int64
	open                     []*modelWindow
	cuts                     map[string]int64
	sent, lates              []string
	made                     int
	seen                     map[string]int // what the test has reached
}

type modelWindow struct {
	key        string
	start, end int64
	ids        []int
	partial    bool
	number     int
}

func (m *model) config() string {
	text := fmt.Sprintf("late: %dms, idle: %dms, max: %d, key: self.key", m.late, m.idle, m.max)
	switch {
	case m.gap > 0:
		text += fmt.Sprintf(", gap: %dms", m.gap)
	case m.slide > 0:
		text += fmt.Sprintf(", size: %dms, slide: %dms", m.size, m.slide)
	default:
		text += fmt.Sprintf(", size: %dms", m.size)
	}
	if m.early {
		text += ", ack: early"
	}
	if m.fold {
		text += ", init: 0, step: acc + item.n"
	}
	return text
}

func (m *model) send(w *modelWindow, why string) {
	m.seen[why]++
	m.open = slices.DeleteFunc(m.open, func(other *modelWindow) bool { return other == w })
	if w.partial {
		m.seen["partial"]++
	}
	slices.Sort(w.ids)
	content := strings.Trim(fmt.Sprint(w.ids), "[]")
	if m.fold {
		sum := 0
		for _, id := range w.ids {
			sum += id
		}
		content = fmt.Sprint(sum)
	}
	m.sent = append(m.sent, fmt.Sprintf("%s %d-%d: %s %v", w.key, w.start, w.end, content, w.partial))
}

func (m *model) oldest() *modelWindow {
	return slices.MinFunc(m.open, func(a, b *modelWindow) int {
		if a.end != b.end {
			return int(a.end - b.end)
		}
		return a.number - b.number
	})
}

// pass lets time pass in which no event comes.
func (m *model) pass(d int64) {
	m.now += d
	for len(m.open) > 0 {
		w := m.oldest()
		if m.last+max(m.idle, w.end-(m.highest-m.late)) > m.now {
			return
		}
		m.mark = max(m.mark, w.end)
		m.send(w, "idle")
	}
}

func (m *model) event(at int64, key string, id int) {
	m.last, m.highest = m.now, max(m.highest, at)
	m.mark = max(m.mark, m.highest-m.late)
	placed := false
	if m.gap > 0 {
		placed = m.session(at, key, id)
	} else {
		slide := m.slide
		if slide == 0 {
			slide = m.size
		}
		for start := at - (at+epoch)%slide; start > at-m.size; start -= slide {
			if start+m.size > m.mark {
				m.window(key, start, start+m.size).add(id)
				placed = true
			}
		}
	}
	if !placed {
		m.seen["late"]++
		m.lates = append(m.lates, fmt.Sprint(id))
	}
	for len(m.open) > 0 && m.oldest().end <= m.mark {
		m.send(m.oldest(), "over")
	}
	for m.load() >= m.max {
		w := m.oldest()
		w.partial = true
		m.cuts[w.key] = max(m.cuts[w.key], w.end)
		m.send(w, "full")
	}
}

func (w *modelWindow) add(id int) { w.ids = append(w.ids, id) }

func (m *model) load() int {
	ids, n := make(map[int]bool), 0
	for _, w := range m.open {
		for _, id := range w.ids {
			ids[id] = true
			n++
		}
	}
	switch {
	case m.fold:
		return len(m.open)
	case m.early:
		return n
	}
	return len(ids)
}

func (m *model) window(key string, start, end int64) *modelWindow {
	for _, w := range m.open {
		if w.key == key && w.start == start && m.gap == 0 {
			return w
		}
	}
	m.made++
	w := &modelWindow{key: key, start: start, end: end, partial: start < m.cuts[key], number: m.made}
	m.open = append(m.open, w)
	return w
}

func (m *model) session(at int64, key string, id int) bool {
	var touched []*modelWindow
	for _, w := range m.open {
		if w.key == key && w.start < at+m.gap && w.end > at {
			touched = append(touched, w)
		}
	}
	sort.Slice(touched, func(i, j int) bool { return touched[i].start < touched[j].start })
	switch {
	case len(touched) == 0 && at+m.gap <= m.mark:
		return false
	case len(touched) == 0:
		touched = []*modelWindow{m.window(key, at, at+m.gap)}
	case len(touched) == 2:
		first, second := touched[0], touched[1]
		if m.fold {
			first.partial, second.partial = true, true
			m.send(first, "cut merge")
			touched = touched[1:]
			break
		}
		m.seen["merge"]++
		first.ids = append(first.ids, second.ids...)
		first.end, first.partial = second.end, first.partial || second.partial
		m.open = slices.DeleteFunc(m.open, func(w *modelWindow) bool { return w == second })
	}
	w := touched[0]
	w.start, w.end = min(w.start, at), max(w.end, at+m.gap)
	w.add(id)
	return true
}

// epoch is when the clock of a bubble starts, in milliseconds.
const epoch = 946684800000

// showWindow shows what was sent as the model does.
func showWindow(w value.Value) string {
	get := func(name string) value.Value { v, _ := w.Get(name); return v }
	ms := func(name string) int64 { t, _ := get(name).AsTime(); return t.UnixMilli() - epoch }
	content := get("value").String()
	if items, ok := w.Get("items"); ok {
		content = strings.Trim(fmt.Sprint(ids(items)), "[]")
	}
	return fmt.Sprintf("%s %d-%d: %s %v", get("key").String(), ms("start"), ms("end"), content, get("partial").Truth())
}

func ids(items value.Value) (all []int) {
	for _, item := range items.Elems() {
		n, _ := item.Get("n")
		i, _ := n.AsInt()
		all = append(all, int(i))
	}
	slices.Sort(all)
	return all
}

func record(at int64, key string, id int) value.Value {
	return value.Map(value.Field{Name: "time", Value: value.Time(time.UnixMilli(epoch + at))}, value.Field{Name: "key", Value: value.String(key)}, value.Field{Name: "n", Value: value.Int(int64(id))})
}

// TestWindowModel compares what is sent with what the model says, for events that are out of order by more or
// less than late, with pauses, for all sorts of windows.
func TestWindowModel(t *testing.T) {
	seen := make(map[string]int)
	const seeds, events = 60, 120
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(29, seed))
		m := &model{idle: 1000 * (1 + rnd.Int64N(5)), late: 1000 * rnd.Int64N(4), max: 1000, highest: -1 << 40, mark: -1 << 40, cuts: make(map[string]int64), seen: make(map[string]int)}
		switch rnd.IntN(3) {
		case 0:
			m.size = 1000 * (1 + rnd.Int64N(10))
		case 1:
			m.slide = 1000 * (1 + rnd.Int64N(3))
			m.size = m.slide + 1000*rnd.Int64N(8)
		default:
			m.gap = 1000 * (1 + rnd.Int64N(3))
		}
		m.early = rnd.IntN(2) == 0
		m.fold = m.early && rnd.IntN(2) == 0
		if rnd.IntN(2) == 0 {
			m.max = 5 + rnd.IntN(10)
		}
		bubble(t, "- {kind: window, name: n, "+m.config()+", ports: {out: [{name: list}], late: [{name: late}]}}", func(t *testing.T, f *flowtest.Flow) {
			var calls []*flowtest.Call
			for id := range events {
				pause := 1 + rnd.Int64N(300) // never whole seconds, so that no two things are due together
				if rnd.IntN(10) == 0 {
					pause = 1000*rnd.Int64N(9) + 1 + rnd.Int64N(900)
				}
				if (m.now+pause)%1000 == 0 || pause%1000 == 0 {
					pause++
				}
				<-time.After(time.Duration(pause) * time.Millisecond)
				m.pass(pause)
				at := max(0, m.now/1000*1000-1000*rnd.Int64N(7)) + 1_000_000
				key := string(rune('a' + rnd.IntN(3)))
				calls = append(calls, f.Start("n", record(at, key, id)))
				synctest.Wait()
				m.event(at, key, id)
			}
			<-time.After(time.Hour)
			m.pass(3_600_000)
			synctest.Wait()
			for _, c := range calls {
				if resp := c.Response(); resp.IsError() {
					t.Errorf("got %s", flowtest.Show(resp))
				}
			}
			var got, lates []string
			for _, w := range f.Probe("list").Payloads() {
				got = append(got, showWindow(w))
			}
			for _, p := range f.Probe("late").Payloads() {
				n, _ := p.Get("n")
				lates = append(lates, n.String())
			}
			slices.Sort(got)
			slices.Sort(m.sent)
			what := fmt.Sprintf("seed %d, %s", seed, m.config())
			expect(t, what+": windows", strings.Join(got, "\n"), strings.Join(m.sent, "\n"))
			expect(t, what+": late", strings.Join(lates, " "), strings.Join(m.lates, " "))
			if open, parked := f.Figure("window_open"), f.Figure("window_waiting"); open != 0 || parked != 0 || f.Figure("window_bytes") != 0 {
				t.Errorf("%s: %v windows are open, and %v payloads wait", what, open, parked)
			}
		})
		for k, n := range m.seen {
			seen[k] += n
		}
	}
	for _, what := range []string{"late", "partial", "idle", "over", "full", "merge", "cut merge"} {
		if seen[what] < 10 {
			t.Errorf("the test has reached %q %d times only: %v", what, seen[what], slices.Sorted(maps.Keys(seen)))
		}
	}
	t.Logf("%v", seen)
}

// TestWindowAgain has windows whose processes fail, and a source that tries again until all is well, over reloads.
// Each message is in each of its windows, of those that ended well, and once if it is in one only.
func TestWindowAgain(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(30, seed))
		config, windows, reloads := "size: 10s, late: 1s, max: 50", 1, true
		switch seed % 3 {
		case 1:
			config, windows, reloads = "size: 10s, slide: 5s, late: 1s", 2, false
		case 2:
			config = "gap: 3s, late: 1s, max: 50"
		}
		document := "- {kind: window, name: n, " + config + ", idle: 2s, key: self.key, ports: {out: [{name: list}]}}"
		bubble(t, document, func(t *testing.T, f *flowtest.Flow) {
			var mu sync.Mutex
			good, attempts, failing := make(map[int]int), 0, 0
			f.Probe("list").Do(func(_ node.Process, pkt node.Packet) node.Result {
				mu.Lock()
				defer mu.Unlock()
				if attempts++; rnd.IntN(2) == 0 {
					failing++
					return node.Fail(fmt.Errorf("attempt %d", attempts))
				}
				items, _ := pkt.Payload.Get("items")
				for _, id := range ids(items) {
					good[id]++
				}
				return node.None()
			})
			const messages = 200
			var group sync.WaitGroup
			for id := range messages {
				at, key := int64(1_000_000+100*id), string(rune('a'+id%3))
				group.Go(func() {
					for try := range 100 {
						_, _, err := f.Engine().Run(t.Context(), "n", record(at, key, id))
						if err == nil {
							return
						}
						if node.Describe(err).Code == "late" {
							t.Errorf("seed %d: message %d is late", seed, id)
							return
						}
						<-time.After(time.Duration(10+try*(id%7)) * time.Millisecond)
					}
					t.Errorf("seed %d: message %d does not end well", seed, id)
				})
				if id%5 == 0 {
					<-time.After(100 * time.Millisecond)
				}
				if reloads && id%60 == 59 {
					f.Load(document)
				}
			}
			group.Wait()
			for id := range messages {
				if good[id] < windows || good[id] > windows && windows == 1 {
					t.Errorf("seed %d, %s: message %d is in %d windows, want %d", seed, config, id, good[id], windows)
				}
			}
			if failing == 0 {
				t.Errorf("seed %d: nothing has failed", seed)
			}
		})
	}
}
