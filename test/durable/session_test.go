//go:build unix

package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// counting counts the orders of a client in its session, and charges them.
const counting = `
- kind: listener
  name: orders
  host: 127.0.0.1
  port: %[1]d
  durability: {level: checkpoint, key: 'header["Idempotency-Key"][0]'}
  ports: {out: [{name: client}]}
- {kind: session, name: client, key: 'string(int(self.body.order) %% %[4]d)', init: {orders: 0}, queue: 1000, store: {driver: sqlite, source: %[3]q}, ports: {out: [{name: before}]}}
- {kind: recall, name: before, ports: {out: [{name: count}]}}
- {kind: remember, name: count, set: {orders: "${session.orders + 1}"}, append: {all: "${input.body.order}"}, ports: {out: [{name: body}]}}
- {kind: snippet, name: body, language: cel, code: '{"body": {"n": self.session.orders}}', ports: {out: [{name: charge}]}}
- {kind: http, name: charge, method: POST, url: "%[2]s/charge", timeout: 5s, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: '{"body": self.body.done}'}
`

// TestKillSession kills the server at calls of a service, before it answers and after, while runs have sessions or
// wait for them. One run at a time has a session, over the crashes, and what it has changed is there once.
func TestKillSession(t *testing.T) {
	dir := t.TempDir()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	const orders, sessions, most = 96, 4, 5
	w := &world{done: make(map[string]int), given: make(map[string]string), asked: make(map[string]string)}
	services := httptest.NewServer(w)
	defer services.Close()
	port := freeport.Port(t)
	file := filepath.Join(dir, "sessions.db")
	p := newProgram(t, dir, fmt.Sprintf(counting, port, services.URL, file, sessions))
	crashes, last := 0, 0
	w.crash = func(calls int) (before, after bool) { // w is locked
		if crashes < most && calls-last > 12 && rng.IntN(4) == 0 {
			crashes++
			last = calls
			return crashes%2 == 0, crashes%2 == 1
		}
		return false, false
	}
	var one sync.Mutex
	w.kill = func() {
		one.Lock()
		defer one.Unlock()
		p.crash()
	}
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	slots := make(chan struct{}, 12)
	var clients sync.WaitGroup
	for i := range orders {
		slots <- struct{}{}
		clients.Go(func() {
			defer func() { <-slots }()
			if _, err := order(ctx, url, i); err != nil {
				t.Errorf("order %d: %v", i, err)
			}
		})
	}
	clients.Wait()
	p.stop()
	if crashes == 0 {
		t.Error("nothing has crashed")
	}
	db := openDB(t, file)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT id, data FROM uniflow_sessions")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := 0
	for rows.Next() {
		var id, data string
		if err := rows.Scan(&id, &data); err != nil {
			t.Fatal(err)
		}
		var session struct {
			Orders  int
			All     []int
			Uniflow struct{ Run string } `json:"$uniflow"`
		}
		if err := json.Unmarshal([]byte(data), &session); err != nil {
			t.Fatal(err)
		}
		seen := make(map[int]bool)
		for _, i := range session.All {
			seen[i] = true
		}
		if want := orders / sessions; session.Orders != want || len(session.All) != want || len(seen) != want || session.Uniflow.Run != "" {
			t.Errorf("session %s, after %d crashes: got %s; want %d orders, each once, and no run that has it", id, crashes, data, want)
		}
		found++
	}
	if err := rows.Err(); err != nil || found != sessions {
		t.Errorf("got %d sessions, %v; want %d", found, err, sessions)
	}
	if t.Failed() {
		t.Log(p.log.String())
	}
}
