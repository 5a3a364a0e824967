package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/console"
	"github.com/uniflow-labs/uniflow/internal/debug"
	"github.com/uniflow-labs/uniflow/internal/edit"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// full are options with everything that can be left out.
func full() Options {
	documents, err := edit.New(edit.Options{Read: func() ([]spec.Document, error) { return nil, nil }, Check: func([]spec.Document) diag.List { return nil }})
	if err != nil {
		panic(err)
	}
	act := func(context.Context, journal.ID) error { return nil }
	return Options{
		Signal: func(context.Context, node.Signal) error { return nil }, CancelRun: act, PauseRun: func(context.Context, journal.ID) (bool, error) { return true, nil }, ResumeRun: act, RetryRun: func(context.Context, journal.ID, bool) error { return nil }, RestartRun: func(_ context.Context, id journal.ID, _ *value.Value) (journal.ID, error) { return id, nil },
		PauseQueue: func(context.Context, string, string, bool) error { return nil }, Enqueue: func(context.Context, node.Item) (*node.Receipt, error) { return nil, errors.New("no queue") },
		Edit: documents, Slow: http.NotFoundHandler(), Logs: new(console.Logs), Again: func() {}, Announce: func(string) {}, Debug: debug.New(debug.Options{}), Cancel: func(string) bool { return false }, Send: func(context.Context, string, int, value.Value) (answer value.Value, ok bool, err error) { return }, Requeue: func(context.Context, string, [][]byte) ([]node.Requeued, error) { return nil, nil },
	}
}

// TestScopes asks each route of the table as each client, under the server's name and another, and from its
// page and another.
func TestScopes(t *testing.T) {
	opts := full()
	opts.Token, opts.ViewToken = "all", "look"
	s := start(t, opts)
	inspect := api.Session{Token: "inspecting"}
	s.auth.sessions[sumOf(inspect.Token)] = &session{api.Inspect, time.Now().Add(time.Hour)}
	clients := map[string]api.Scope{"": api.Open, "look": api.View, inspect.Token: api.Inspect, "all": api.Control}
	own := "http://" + s.Addr().String()
	for _, r := range api.Routes() {
		path := strings.NewReplacer("{$}", "", "{file}", "none.js", "{kind}", "none").Replace(r.Path)
		if path == api.EventsPath || path == "/debug/pprof/profile" || path == "/debug/pprof/trace" { // they take time: only refusals are asked for
			path += "?seconds=x"
		}
		for token, has := range clients {
			for _, host := range []string{"", "evil.example.com"} {
				for _, origin := range []string{"", own, "http://evil.example.com"} {
					var headers []string
					if token != "" {
						headers = append(headers, "Authorization", "Bearer "+token)
					}
					if host != "" {
						headers = append(headers, "Host", host)
					}
					if origin != "" {
						headers = append(headers, "Origin", origin)
					}
					asked := s.Addr().String()
					if host != "" {
						asked = host
					}
					want := 0 // let through
					switch {
					case host != "" && token == "" || origin != "" && origin != "http://"+asked: // who has a token is not led here
						want = 403
					case has < r.Scope && token == "":
						want = 401
					case has < r.Scope:
						want = 403
					}
					if want == 0 && strings.HasPrefix(path, api.EventsPath) {
						continue
					}
					got, body := get(t, s, r.Method, path, headers...)
					if refused := got == 401 || got == 403; want != 0 && got != want || want == 0 && refused && path != api.SessionPath {
						t.Errorf("%s with %q, host %q, origin %q: got %d %s, want %d", r.Pattern(), token, host, origin, got, body, want)
					}
				}
			}
		}
	}
}

// TestHandlers demands what answers each route of the table, and no more.
func TestHandlers(t *testing.T) {
	s := start(t, full())
	handlers := s.handlers(http.NotFoundHandler())
	for _, r := range api.Routes() {
		if handlers[r.Pattern()] == nil {
			t.Errorf("%s has no handler", r.Pattern())
		}
		delete(handlers, r.Pattern())
	}
	for pattern := range handlers {
		t.Errorf("%s is not in the table", pattern)
	}
}

// TestLink opens the page from a link on another site, and nothing else.
func TestLink(t *testing.T) {
	s := start(t, Options{})
	from := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}
	if got, _ := get(t, s, "GET", "/", from...); got != 200 {
		t.Errorf("got %d, want the page", got)
	}
	if got, _ := get(t, s, "GET", "/api/v1/status", from...); got != 403 {
		t.Errorf("got %d, want 403 for all else", got)
	}
}

func post(t *testing.T, s *Server, body string) (status int, session api.Session) {
	t.Helper()
	status, _ = asked(t, s, "", "POST", api.SessionPath, body, &session)
	return status, session
}

// TestSession opens a session with the code that was printed: once, and no other.
func TestSession(t *testing.T) {
	opts := full()
	var url string
	var reloads atomic.Int64
	opts.Announce = func(at string) { url = at }
	opts.Again = func() { reloads.Add(1) }
	s := start(t, opts)
	page, code, _ := strings.Cut(url, "#code=")
	if page != "http://"+s.Addr().String()+"/" || len(code) < 26 {
		t.Fatalf("got the address %q", url)
	}
	if got, body := get(t, s, "POST", "/api/v1/reload"); got != 403 || !strings.Contains(body, "needs the scope control") || !strings.Contains(body, api.CodePath) {
		t.Errorf("got %d %s before there is a session", got, body)
	}
	for _, body := range []string{`{"code": "x"}`, `{"token": "x"}`} {
		if got, _ := post(t, s, body); got != 401 {
			t.Errorf("%s: got %d, want 401", body, got)
		}
	}
	for _, body := range []string{`{}`, `{"code": "a", "token": "b"}`, `{"cod": "a"}`, `x`, fmt.Sprintf(`{"code": %q}`, strings.Repeat("a", api.MaxBody))} {
		if got, _ := post(t, s, body); got != 400 {
			t.Errorf("%.40s: got %d, want 400", body, got)
		}
	}
	got, session := post(t, s, fmt.Sprintf(`{"code": %q}`, code))
	if got != 200 || session.Scope != "control" || len(session.Token) < 52 {
		t.Fatalf("got %d %+v", got, session)
	}
	if got, _ := post(t, s, fmt.Sprintf(`{"code": %q}`, code)); got != 401 {
		t.Errorf("got %d for a code that was used", got)
	}
	if got, body := get(t, s, "POST", "/api/v1/reload", "Authorization", "Bearer "+session.Token); got != 202 || reloads.Load() != 1 {
		t.Errorf("got %d %s, %d reloads", got, body, reloads.Load())
	}
	if got, _ := get(t, s, "POST", api.CodePath); got != 429 {
		t.Errorf("got %d for a code in the minute after the last", got)
	}
	if got, _ := get(t, start(t, Options{}), "POST", api.CodePath); got != 404 {
		t.Errorf("got %d of a program that prints no codes", got)
	}
}

// TestMost caps what a token and a code may do.
func TestMost(t *testing.T) {
	opts := full()
	opts.Token, opts.Most = "all", api.View
	s := start(t, opts)
	if got, body := get(t, s, "GET", "/api/v1/logs", "Authorization", "Bearer all"); got != 403 || !strings.Contains(body, "--admin-scope view") {
		t.Errorf("got %d %s", got, body)
	}
	if got, session := post(t, s, `{"token": "all"}`); got != 200 || session.Scope != "view" {
		t.Errorf("got %d %+v", got, session)
	}
}

// TestLives ends codes after ten minutes, and sessions after twelve hours without a request.
func TestLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuth(&Options{})
		code, _ := a.newCode()
		<-time.After(codeLife + time.Second)
		if _, ok := a.open(api.Credentials{Code: code}); ok {
			t.Error("a code is good after ten minutes")
		}
		if _, ok := a.open(api.Credentials{}); ok {
			t.Error("no code is good")
		}
		code, ok := a.newCode()
		if !ok {
			t.Fatal("there is no other code")
		}
		s, ok := a.open(api.Credentials{Code: code})
		for range 3 {
			if _, known := a.lookup(s.Token); !ok || !known {
				t.Fatal("the session is not known")
			}
			<-time.After(sessionIdle - time.Minute)
		}
		<-time.After(2 * time.Minute)
		if _, known := a.lookup(s.Token); known {
			t.Error("the session is known after twelve hours")
		}
	})
}
