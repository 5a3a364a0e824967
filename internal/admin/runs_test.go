package admin

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// checkout calls a service, which answers with the token of the call.
const checkout = `
- kind: listener
  name: shop
  port: PORT
  durability: {level: checkpoint, key: 'header[?"Idempotency-Key"][?0].orValue(null)'}
  ports: {out: order}
- {kind: snippet, name: order, language: cel, code: '{"body": body}', ports: {out: charge}}
- {kind: http, name: charge, url: 'SERVICE', expect: status < 400, auth: {token: an-api-token-of-the-shop}, ports: {out: made}}
- {kind: snippet, name: made, language: cel, code: '{"body": body, "header": {"Set-Cookie": "session=hunter2"}}'}
`

// A till is a running program with durable runs in a file.
type till struct {
	t    *testing.T
	s    *Server
	e    *uniflow.Engine
	port int
}

func openTill(t *testing.T) *till {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), "stone") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"charge": "c-1", "asked": %q}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(service.Close)
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "runs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("cel"), Grace: time.Second, Journal: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	p := &till{t: t, e: e, port: freeport.Port(t)}
	p.apply(strings.NewReplacer("PORT", strconv.Itoa(p.port), "SERVICE", service.URL).Replace(checkout))
	p.s = start(t, Options{
		Token: "all", ViewToken: "look", Status: e.Status, Redact: e.Redact, RedactValue: e.RedactValue,
		Runs: e.Runs(), Signal: e.Signal, CancelRun: e.CancelRun, PauseRun: e.PauseRun, ResumeRun: e.ResumeRun, RetryRun: e.RetryRun, RestartRun: e.RestartRun,
	})
	return p
}

func (p *till) apply(document string) {
	p.t.Helper()
	if list, err := p.e.Apply(p.t.Context(), uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(document)}}}); err != nil || list.HasErrors() {
		p.t.Fatal(list, err)
	}
}

// order asks for a durable run, and returns its id.
func (p *till) order(item string) (run string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, fmt.Sprintf("http://localhost:%d/", p.port), strings.NewReader(`{"item": "`+item+`"}`))
	if err != nil {
		p.t.Fatal(err)
	}
	for name, text := range map[string]string{"Content-Type": "application/json", "Idempotency-Key": item, "Authorization": "Bearer hunter2", "Cookie": "session=hunter2", "X-Api-Key": "hunter2"} {
		req.Header.Set(name, text)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		p.t.Fatal(err)
	}
	return resp.Header.Get("Uniflow-Run")
}

// list returns the ids of runs, and how the next page begins.
func (p *till) list(query string) (ids, next string) {
	p.t.Helper()
	var page api.Runs
	status, text := asked(p.t, p.s, "look", "GET", "/api/v1/runs?"+query, "", &page)
	if status != 200 {
		return strconv.Itoa(status), text
	}
	if strings.Contains(text, "hunter2") || strings.Contains(text, "tea") {
		p.t.Errorf("a list with payloads: %s", text)
	}
	var all []string
	for _, r := range page.Runs {
		all = append(all, r.ID)
	}
	return strings.Join(all, " "), page.Next
}

// TestRuns lists runs of a journal, and shows one; its payloads to those who may inspect, without secrets.
func TestRuns(t *testing.T) {
	p := openTill(t)
	good := p.order("tea")
	p.order("stone")
	bad, _ := p.list("state=failed")
	if bad == "" || bad == good {
		t.Fatalf("got the failed run %q", bad)
	}
	both := bad + " " + good
	for query, want := range map[string]string{
		"": both, "state=failed": bad, "state=ok": good, "state=ok,failed": both, "state=running": "",
		"trigger=shop": both, "trigger=charge": "", "trigger=shop&namespace=other": "", "since=1h": both, "since=1ns": "", "limit=500": both,
	} {
		if ids, next := p.list(query); ids != want || next != "" {
			t.Errorf("%s: got %q, next %q, want %q", query, ids, next, want)
		}
	}
	if ids, next := p.list("limit=1"); ids != bad || next != bad {
		t.Errorf("the first page: got %q, next %q", ids, next)
	}
	if ids, next := p.list("limit=1&after=" + bad); ids != good || next != "" {
		t.Errorf("the second page: got %q, next %q", ids, next)
	}
	var run api.RunDetail
	status, text := asked(t, p.s, "look", "GET", "/api/v1/runs/"+good, "", &run)
	if status != 200 || run.Run.State != "ok" || run.Run.Trigger.Name != "shop" || run.Run.Level != "checkpoint" || !run.Run.Keyed || run.Run.Ended == nil ||
		len(run.Records) != 1 || run.Records[0].N != 1 || run.Records[0].Node.Name != "charge" || run.Records[0].Type != "result" || run.Records[0].Outcome != "send" || *run.Records[0].Port != 0 ||
		run.Input != nil || run.Answer != nil || strings.Contains(text, "tea") {
		t.Errorf("got %d %s", status, text)
	}
	if status, text := asked(t, p.s, "look", "GET", "/api/v1/runs/"+good+"?payloads=true", "", nil); status != 403 || !strings.Contains(text, "scope inspect") {
		t.Errorf("got %d %s", status, text)
	}
	status, text = asked(t, p.s, "all", "GET", "/api/v1/runs/"+good+"?payloads=true", "", &run)
	if status != 200 || !strings.Contains(run.Input.Text, `"item": "tea"`) || !strings.Contains(run.Records[0].Payload.Text, `"charge": "c-1"`) || !strings.Contains(run.Answer.Text, `"charge": "c-1"`) {
		t.Errorf("got %d %s", status, text)
	}
	for _, secret := range []string{"hunter2", "an-api-token-of-the-shop"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	status, text = asked(t, p.s, "all", "GET", "/api/v1/runs/"+bad+"?payloads=true", "", &run)
	if status != 200 || run.Run.State != "failed" || !strings.Contains(run.Run.Error, "418") || run.Records[0].Outcome != "error" || run.Answer.Kind != "error" {
		t.Errorf("got %d %s", status, text)
	}
	if status, text := asked(t, p.s, "all", "GET", "/api/v1/runs/"+good+"?after=1", "", &run); status != 200 || len(run.Records) != 0 {
		t.Errorf("got %d %s", status, text)
	}

	// Nodes that are gone are in the documents of the run.
	p.apply("- {kind: snippet, name: other, language: text, code: x}")
	if status, text := asked(t, p.s, "look", "GET", "/api/v1/runs/"+good, "", &run); status != 200 || run.Run.Trigger.Name != "shop" || run.Records[0].Node.Name != "charge" {
		t.Errorf("got %d %s", status, text)
	}
	for _, trigger := range []string{"shop", run.Run.Trigger.ID} {
		if ids, _ := p.list("trigger=" + trigger); ids != both {
			t.Errorf("%s: got %q, want %q", trigger, ids, both)
		}
	}
}

// TestRunsRefused answers what cannot be asked for.
func TestRunsRefused(t *testing.T) {
	p := openTill(t)
	good := p.order("tea")
	for path, want := range map[string]int{
		"?state=lost": 400, "?since=yesterday": 400, "?since=-1h": 400, "?limit=-1": 400, "?after=7": 400,
		"/7": 400, "/0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71": 404, "/" + good + "?payloads=maybe": 400, "/" + good + "?after=x": 400, "/" + good + "?after=99999999999": 200,
	} {
		if status, text := asked(t, p.s, "all", "GET", "/api/v1/runs"+path, "", nil); status != want {
			t.Errorf("%s: got %d %s, want %d", path, status, text, want)
		}
	}
	if err := p.e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, text := asked(t, p.s, "all", "GET", "/api/v1/runs", "", nil); status != 503 {
		t.Errorf("got %d %s, want 503", status, text)
	}
	bare := start(t, Options{Token: "all"})
	for _, path := range []string{"/api/v1/runs", "/api/v1/runs/" + good} {
		if status, text := asked(t, bare, "all", "GET", path, "", nil); status != 409 || !strings.Contains(text, "--journal sqlite:FILE") {
			t.Errorf("got %d %s, want 409", status, text)
		}
	}
}

// approvals has orders that wait for a person.
const approvals = `
- kind: listener
  name: shop
  port: PORT
  durability: {level: checkpoint, key: 'header[?"Idempotency-Key"][?0].orValue(null)', respond_within: 1ms}
  ports: {out: approval}
- {kind: wait, name: approval, event: approved, key: body.item, timeout: 1h, ports: {ask: noted, out: done}}
- {kind: snippet, name: noted, language: cel, code: token}
- {kind: snippet, name: done, language: cel, code: '{"body": signal}'}
`

// waits asks for a run that waits, and returns its id once the journal has it so.
func (p *till) waits(item string) (run string) {
	p.t.Helper()
	run = p.order(item)
	p.until(run, "waiting")
	return run
}

func (p *till) until(run, state string) (detail api.RunDetail) {
	p.t.Helper()
	for {
		status, text := asked(p.t, p.s, "look", "GET", "/api/v1/runs/"+run, "", &detail)
		if status == 200 && detail.Run.State == state {
			return detail
		}
		select {
		case <-p.t.Context().Done():
			p.t.Fatalf("got %d %s, want the state %s", status, text, state)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestRunsWait shows what runs wait for, without tokens, and sends signals; it cancels and restarts.
func TestRunsWait(t *testing.T) {
	p := openTill(t)
	p.apply(strings.ReplaceAll(approvals, "PORT", strconv.Itoa(p.port)))
	tea, ham := p.waits("tea"), p.waits("ham")
	detail := p.until(tea, "waiting")
	if len(detail.Run.Waits) != 1 {
		t.Fatalf("got %+v", detail.Run)
	}
	if w := detail.Run.Waits[0]; w.Event != "approved" || w.Key != "tea" || !w.Token || w.Due == nil || time.Until(*w.Due) > time.Hour || w.Node == nil || w.Node.Name != "approval" {
		t.Errorf("got %+v", w)
	}
	var page api.Runs
	if status, text := asked(t, p.s, "look", "GET", "/api/v1/runs", "", &page); status != 200 || len(page.Runs) != 2 || len(page.Runs[0].Waits) != 1 || page.Runs[0].Waits[0].Key != "ham" {
		t.Errorf("got %d %s", status, text)
	}
	status, text := asked(t, p.s, "all", "GET", "/api/v1/runs/"+tea+"?payloads=true", "", &detail)
	hold := detail.Records[0]
	if status != 200 || hold.Type != "hold" || hold.Payload.Kind != "time" {
		t.Errorf("a payload has more than when the wait ends: %d %s", status, text)
	}

	var sent api.Signalled
	if status, text := asked(t, p.s, "all", "POST", "/api/v1/signals", `{"event": "approved", "key": "tea", "payload": {"n": 12345678901234567890}, "keep": "1h"}`, &sent); status != 200 || len(sent.ID) != 36 {
		t.Errorf("got %d %s", status, text)
	}
	p.until(tea, "ok")
	if status, text := asked(t, p.s, "all", "GET", "/api/v1/runs/"+tea+"?payloads=true", "", &detail); status != 200 || !strings.Contains(detail.Answer.Text, "12345678901234567890") {
		t.Errorf("got %d %s", status, text)
	}
	var run api.Run
	if status, text := asked(t, p.s, "all", "POST", "/api/v1/runs/"+ham+"/cancel", "", &run); status != 200 || run.ID != ham || run.State != "cancelled" || len(run.Waits) > 0 {
		t.Errorf("got %d %s", status, text)
	}
	run = api.Run{}
	if status, text := asked(t, p.s, "all", "POST", "/api/v1/runs/"+ham+"/restart", "", &run); status != 200 || run.ID == ham || run.State != "running" || run.Keyed {
		t.Errorf("got %d %s", status, text)
	}
	p.until(run.ID, "waiting")

	for path, want := range map[string]int{
		"runs/" + ham + "/cancel": 409, "runs/" + ham + "/retry": 409, "runs/" + run.ID + "/retry": 409, "runs/7/cancel": 400,
		"runs/0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71/cancel": 404, "runs/0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71/restart": 404, "runs/0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71/retry": 404,
	} {
		if status, text := asked(t, p.s, "all", "POST", "/api/v1/"+path, "", nil); status != want {
			t.Errorf("%s: got %d %s, want %d", path, status, text, want)
		}
		if status, _ := asked(t, p.s, "look", "POST", "/api/v1/"+path, "", nil); status != 403 {
			t.Errorf("%s: got %d for one who may view", path, status)
		}
	}
	for body, want := range map[string]int{
		`{"token": "guessed"}`: 404, `{}`: 400, `{"event": "e", "keep": "long"}`: 400, `{"event": "e", "keep": "-1h"}`: 400,
		`{"event": "e", "token": "t"}`: 400, `{"event": "e", "id": "token/1"}`: 400, `{"event": "e", "more": 1}`: 400, `{"event": "` + strings.Repeat("e", api.MaxBody) + `"}`: 413,
	} {
		if status, text := asked(t, p.s, "all", "POST", "/api/v1/signals", body, nil); status != want {
			t.Errorf("%.60s: got %d %s, want %d", body, status, text, want)
		}
	}
	if status, _ := asked(t, p.s, "look", "POST", "/api/v1/signals", `{"event": "approved"}`, nil); status != 403 {
		t.Errorf("got %d for one who may view", status)
	}
}

// TestRestartEdited starts runs with another input: what is shown without secrets stays as it was.
func TestRestartEdited(t *testing.T) {
	p := openTill(t)
	p.apply(strings.ReplaceAll(`
- {kind: listener, name: shop, port: PORT, durability: {level: checkpoint, strip: []}, ports: {out: made}}
- {kind: snippet, name: made, language: cel, code: '{"body": {"item": body.item, "same": header["Cookie"][0] == "session=hunter2"}}'}
`, "PORT", strconv.Itoa(p.port)))
	run := p.order("tea")
	var detail api.RunDetail
	if status, text := asked(t, p.s, "all", "GET", "/api/v1/runs/"+run+"?payloads=true", "", &detail); status != 200 || strings.Contains(text, "hunter2") {
		t.Fatal(status, text)
	}
	restart := func(body string, want int) (answer, text string) {
		t.Helper()
		var started api.Run
		status, text := asked(t, p.s, "all", "POST", "/api/v1/runs/"+run+"/restart", body, &started)
		if status != want {
			t.Errorf("%.80s: got %d %s, want %d", body, status, text, want)
		}
		if status != 200 {
			return "", text
		}
		p.until(started.ID, "ok")
		asked(t, p.s, "all", "GET", "/api/v1/runs/"+started.ID+"?payloads=true", "", &detail)
		return detail.Answer.Text, text
	}
	edited := strings.Replace(detail.Input.Text, `"item": "tea"`, `"item": "ham"`, 1)
	if got, _ := restart(`{"input": `+edited+`}`, 200); !strings.Contains(got, `"item": "ham"`) || !strings.Contains(got, `"same": true`) {
		t.Errorf("got %s, want ham, and the cookie as it was", got)
	}
	for _, body := range []string{"", "{}"} {
		if got, _ := restart(body, 200); !strings.Contains(got, `"item": "tea"`) {
			t.Errorf("%q: got %s, want what the first has begun with", body, got)
		}
	}
	if _, text := restart(`{"input": {"more": "[redacted]"}}`, 400); !strings.Contains(text, "nothing is hidden") {
		t.Error(text)
	}
	restart(`{"input": `, 400)
	restart(`{"inputs": 1}`, 400)
	restart(`{"input": "`+strings.Repeat("e", api.MaxBody)+`"}`, 413)
}

// TestRunsBulk does the same with many runs, by their ids and by a filter.
func TestRunsBulk(t *testing.T) {
	p := openTill(t)
	p.apply(strings.ReplaceAll(approvals, "PORT", strconv.Itoa(p.port)))
	tea, ham, gin := p.waits("tea"), p.waits("ham"), p.waits("gin")
	const missing = "0193a1f4-7c1e-7b52-9a3e-0f5b8c2d6e71"
	bulk := func(body string, want int) (job api.RunJob) {
		t.Helper()
		status, text := asked(t, p.s, "all", "POST", "/api/v1/runs/bulk", body, &job)
		if status != want {
			t.Errorf("%.80s: got %d %s, want %d", body, status, text, want)
		}
		for id := job.ID; job.State == "running"; {
			if status, text := asked(t, p.s, "look", "GET", "/api/v1/runs/bulk/"+id, "", &job); status != 200 {
				t.Fatal(status, text)
			}
		}
		return job
	}
	job := bulk(`{"do": "cancel", "ids": ["`+tea+`", "`+missing+`", "`+tea+`"], "rate": 1000}`, 200)
	if job.Done != 1 || len(job.Refused) != 2 || job.Refused[0] != (api.RunRefused{Runs: 1, Message: "there is no run with this id", Example: missing}) || job.Refused[1].Example != tea || job.State != "done" {
		t.Errorf("got %+v", job)
	}
	if job = bulk(`{"do": "pause", "where": {"states": ["waiting", "running"], "trigger": "shop"}}`, 200); job.Done < 2 || len(job.Refused) != 0 {
		t.Errorf("got %+v", job)
	}
	p.until(ham, "paused")
	p.until(gin, "paused")
	if job = bulk(`{"do": "resume", "where": {"states": ["paused"]}, "dry_run": true}`, 200); job.Selected != 2 || job.Done != 0 {
		t.Errorf("got %+v", job)
	}
	var run api.Run
	if status, text := asked(t, p.s, "all", "POST", "/api/v1/runs/"+gin+"/resume", "", &run); status != 200 || run.State != "running" && run.State != "waiting" {
		t.Errorf("got %d %s", status, text)
	}
	if status, text := asked(t, p.s, "all", "POST", "/api/v1/runs/"+ham+"/pause", "", &run); status != 200 || run.State != "paused" {
		t.Errorf("got %d %s", status, text)
	}
	if job = bulk(`{"do": "cancel", "ids": ["`+ham+`"]}`, 200); job.Done != 1 || len(job.Refused) != 0 {
		t.Errorf("got %+v, want ham alone", job)
	}
	if job = bulk(`{"do": "restart", "where": {"states": ["cancelled"], "trigger": "shop", "since": "2020-01-01T00:00:00Z"}}`, 200); job.Done != 2 || len(job.Refused) != 0 {
		t.Errorf("got %+v", job)
	}
	if job = bulk(`{"do": "retry", "where": {"trigger": "other"}}`, 200); job.Done != 0 || len(job.Refused) != 0 {
		t.Errorf("got %+v", job)
	}
	p.until(gin, "waiting")
	if job = bulk(`{"do": "retry", "where": {"states": ["waiting"]}}`, 200); job.Done != 0 || len(job.Refused) < 1 {
		t.Errorf("got %+v", job)
	}
	for _, body := range []string{
		`{"do": "cancel"}`, `{"do": "cancel", "where": {}}`, `{"do": "stop", "ids": ["` + tea + `"]}`, `{"do": "cancel", "ids": ["7"]}`, `{"do": "cancel", "where": {"states": ["lost"]}}`,
		`{"do": "cancel", "ids": ["` + tea + `"], "where": {"trigger": "shop"}}`, `{"do": "cancel", "ids": ["` + tea + `"], "rate": 1001}`, `{"do": "cancel", "ids": ["` + tea + `"], "rate": -1}`,
		`{"do": "pause", "latest": true, "ids": ["` + tea + `"]}`, `{"do": "cancel", "where": {"trigger": "shop"}, "after": "7"}`,
	} {
		bulk(body, 400)
	}
	if status, _ := asked(t, p.s, "look", "POST", "/api/v1/runs/bulk", `{"do": "cancel", "where": {"trigger": "shop"}}`, nil); status != 403 {
		t.Errorf("got %d for one who may view", status)
	}
	// One at a time, which goes on without a client until it is cancelled.
	var slow api.RunJob
	if status, text := asked(t, p.s, "all", "POST", "/api/v1/runs/bulk", `{"do": "retry", "where": {"trigger": "shop"}, "rate": 1}`, &slow); status != 200 {
		t.Fatal(status, text)
	}
	if status, text := asked(t, p.s, "all", "POST", "/api/v1/runs/bulk", `{"do": "cancel", "ids": ["`+tea+`"]}`, nil); status != 409 || !strings.Contains(text, "uniflow runs jobs --cancel "+slow.ID) {
		t.Errorf("got %d %s", status, text)
	}
	if status, _ := asked(t, p.s, "look", "DELETE", "/api/v1/runs/bulk/"+slow.ID, "", nil); status != 403 {
		t.Errorf("cancelled by one who may view: %d", status)
	}
	if status, text := asked(t, p.s, "all", "DELETE", "/api/v1/runs/bulk/"+slow.ID, "", nil); status != 200 {
		t.Errorf("got %d %s", status, text)
	}
	for slow.State == "running" {
		asked(t, p.s, "look", "GET", "/api/v1/runs/bulk/"+slow.ID, "", &slow)
	}
	var all []api.RunJob
	if asked(t, p.s, "look", "GET", "/api/v1/runs/bulk", "", &all); slow.State != "cancelled" || len(all) == 0 || all[0].State != "cancelled" {
		t.Errorf("got %+v", all)
	}
	if status, _ := asked(t, p.s, "look", "GET", "/api/v1/runs/bulk/7", "", nil); status != 404 {
		t.Errorf("got %d", status)
	}
	if err := p.e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if job = bulk(`{"do": "cancel", "ids": ["`+gin+`", "`+tea+`"]}`, 200); job.State != "failed" || job.Error == "" || job.Done != 0 {
		t.Errorf("got %+v", job)
	}
}
