package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// llmStreams is how many answers of a model S8 passes on concurrently; each has a token every
// tokenEvery.
const (
	llmStreams = 100
	tokenEvery = 20 * time.Millisecond
)

// measureLLM is S8: a model in a process of its own says the time at which it makes each token,
// and what counts is how much later the tokens come through llm than through a relay. A relay
// by hand passes the answer on as it is, or makes events of its text as llm does.
func measureLLM(ctx context.Context, l *lab) (err error) {
	addr, err := server.FreeAddr()
	if err != nil {
		return err
	}
	model, err := server.Start(ctx, server.Options{
		Name: "model", Addr: addr, Path: "/ping", Program: l.Self, Args: formArgs("llm", "model", addr, l.span().String(), ""), Log: l.File("model.log"),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Stop()) }()
	late, half := make(map[string][]float64), make(map[string][]float64)
	answers := func(ctx context.Context, name string, s *server.Server) (cost, int, error) {
		busy, begun := s.Busy(), time.Now()
		g, err := listen(ctx, s.Addr, llmStreams, l.span(), func(int) string { return "/answer" }, tokenMade)
		if err != nil {
			return cost{}, 0, err
		}
		late[name] = append(late[name], float64(g.late.Quantile(0.99)))
		half[name] = append(half[name], float64(g.late.Quantile(0.5)))
		l.Progress("%s: half of the tokens within %v, 99 %% within %v", name, g.late.Quantile(0.5), g.late.Quantile(0.99))
		resident, err := s.Resident()
		return cost{wall: time.Since(begun), cpu: s.Busy() - busy, peak: resident}, int(g.parts.Load()), err
	}
	document := func(port string) string {
		return fmt.Sprintf(`
- {kind: listener, name: in, protocol: http, host: 127.0.0.1, port: %s, ports: {out: [{name: routes}]}}
- kind: router
  name: routes
  routes: [{method: GET, path: /ping, port: "out[0]"}, {method: GET, path: /answer, port: "out[1]"}]
  ports: {"out[0]": [{name: pong}], "out[1]": [{name: bot}]}
- {kind: snippet, name: pong, language: text, code: pong}
- {kind: llm, name: bot, url: 'http://%s/v1', model: small, prompt: '"what time is it?"', stream: true}
`, port, addr)
	}
	ours, _, err := l.compare(ctx, "S8", l.servers("llm", document, []string{"a proxy", "a copy", "a scanner", "a decoder"}, answers, "http://"+addr)...)
	if err != nil {
		return err
	}
	best := ""
	for name := range late {
		if name != ours.Name && (best == "" || median(late[name]) < median(late[best])) {
			best = name
		}
	}
	more := median(late[ours.Name]) - median(late[best])
	l.targets.Add(more <= time.Millisecond, "S8, how much later 99 % of the tokens are than by "+best, "at most 1 ms",
		fmt.Sprintf("%v: %v, and %v", more.Round(10*time.Microsecond), median(late[ours.Name]).Round(10*time.Microsecond), median(late[best]).Round(10*time.Microsecond)))
	l.Progress("S8: half of the tokens within %v, by %s within %v", median(half[ours.Name]), best, median(half[best]))
	return nil
}

// tokenMade returns when the token in a line was made.
func tokenMade(line []byte) (at time.Time, ok bool) {
	_, text, ok := bytes.Cut(line, []byte("t="))
	if !ok {
		return at, false
	}
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	ns, err := strconv.ParseInt(string(text[:digits]), 10, 64)
	return time.Unix(0, ns), err == nil
}

// llmForm is the model, or a baseline: form, address, for how long, URL of the model.
func llmForm(ctx context.Context, args []string) error {
	lifetime, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pong") })
	target := args[3] + "/v1/chat/completions"
	switch args[0] {
	case "model":
		mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { say(w, r, lifetime) })
	case "proxy":
		u, err := url.Parse(target)
		if err != nil {
			return err
		}
		mux.Handle("GET /answer", &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Method, r.Out.URL, r.Out.Host = http.MethodPost, u, u.Host
			r.Out.Body, r.Out.ContentLength = io.NopCloser(strings.NewReader(question)), int64(len(question))
			r.Out.Header.Set("Content-Type", "application/json")
		}})
	default:
		pass := map[string]func(io.Writer, func() error, io.Reader) error{"copy": passBytes, "scanner": passLines, "decoder": passTokens}[args[0]]
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: llmStreams}}
		mux.HandleFunc("GET /answer", func(w http.ResponseWriter, r *http.Request) {
			req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, target, strings.NewReader(question))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			w.Header().Set("Content-Type", "text/event-stream")
			// The client has left, or sees that there is no end.
			_ = pass(w, http.NewResponseController(w).Flush, resp.Body)
		})
	}
	return server.Listen(ctx, args[1], mux)
}

const question = `{"model":"small","messages":[{"role":"user","content":"what time is it?"}],"stream":true,"stream_options":{"include_usage":true}}`

// say sends tokens until the lifetime is over.
func say(w http.ResponseWriter, r *http.Request, lifetime time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	ctx, cancel := context.WithTimeout(r.Context(), lifetime)
	defer cancel()
	first := time.NewTimer(time.Duration(rand.Int64N(int64(tokenEvery)))) // or all would speak together
	defer first.Stop()
	<-first.C
	for now := range ticks(ctx, tokenEvery) {
		fmt.Fprintf(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"small","choices":[{"index":0,"delta":{"content":" t=%d"},"finish_reason":null}]}`+"\n\n", now.UnixNano())
		if flush() != nil {
			return
		}
	}
	fmt.Fprint(w, `data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

// passBytes passes an answer on as it comes.
func passBytes(w io.Writer, flush func() error, r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := flush(); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// passLines passes whole events on, as they are.
func passLines(w io.Writer, flush func() error, r io.Reader) error {
	for s := bufio.NewScanner(r); s.Scan(); {
		if _, err := fmt.Fprintf(w, "%s\n", s.Bytes()); err != nil {
			return err
		}
		if len(s.Bytes()) == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// passTokens makes an event of the text of each one.
func passTokens(w io.Writer, flush func() error, r io.Reader) error {
	for s := bufio.NewScanner(r); s.Scan(); {
		data, ok := bytes.CutPrefix(s.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct{ Content string }
			}
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			return err
		}
		if len(chunk.Choices) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", chunk.Choices[0].Delta.Content); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

func median(all []float64) time.Duration { return time.Duration(program.Median(all)) }
