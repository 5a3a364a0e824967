package script

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

// request sends a request on a connection of its own.
func request(ctx context.Context, method, url string, headers []string, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	for _, h := range headers {
		name, text, _ := strings.Cut(h, ":")
		req.Header.Set(name, strings.TrimSpace(text))
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	return shown(resp)
}

func shown(resp *http.Response) (string, error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %s\n", resp.StatusCode, body), resp.Body.Close()
}

func ask(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: http METHOD URL [-H K:V]... [-d BODY]")
	}
	var headers []string
	body := ""
	for i := 2; i+1 < len(args); i += 2 {
		switch args[i] {
		case "-H":
			headers = append(headers, args[i+1])
		case "-d":
			body = args[i+1]
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	answer, err := request(ctx, args[0], args[1], headers, body)
	if neg {
		if err == nil {
			ts.Fatalf("got %s, want no answer", answer)
		}
		return
	}
	ts.Check(err)
	_, err = io.WriteString(ts.Stdout(), answer)
	ts.Check(err)
}

// held is a request whose body is not sent yet.
type held struct {
	conn net.Conn
	in   *bufio.Reader
	req  *http.Request
}

// hold starts a request. When the server asks for the body, the request is in flight.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: hold NAME URL [TYPE]")
	}
	media := "text/plain"
	if len(args) == 3 {
		media = args[2]
	}
	u, err := url.Parse(args[1])
	ts.Check(err)
	conn, err := net.Dial("tcp", u.Host)
	ts.Check(err)
	ts.Check(conn.SetDeadline(time.Now().Add(limit)))
	h := &held{conn: conn, in: bufio.NewReader(conn), req: &http.Request{Method: "POST"}}
	worldOf(ts).held[args[0]] = h
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\nContent-Type: %s\r\nContent-Length: 4\r\n\r\n", u.Path, u.Host, media)
	ts.Check(err)
	line, err := h.in.ReadString('\n')
	ts.Check(err)
	if !strings.HasPrefix(line, "HTTP/1.1 100") {
		ts.Fatalf("got %q, want 100 Continue", line)
	}
	_, err = h.in.ReadString('\n') // the empty line
	ts.Check(err)
}

func release(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || worldOf(ts).held[args[0]] == nil {
		ts.Fatalf("usage: release NAME")
	}
	h := worldOf(ts).held[args[0]]
	answer, err := h.answer()
	if neg {
		if err == nil {
			ts.Fatalf("got %s, want no answer", answer)
		}
		return
	}
	ts.Check(err)
	_, err = io.WriteString(ts.Stdout(), answer)
	ts.Check(err)
}

func (h *held) answer() (string, error) {
	if _, err := io.WriteString(h.conn, "body"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(h.in, h.req)
	if err != nil {
		return "", err
	}
	answer, err := shown(resp)
	if err != nil {
		return "", err
	}
	return answer, h.conn.Close()
}

func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace OLD NEW FILE")
	}
	before := ts.ReadFile(args[2])
	after := strings.ReplaceAll(before, args[0], args[1])
	if after == before {
		ts.Fatalf("%s has no %q:\n%s", args[2], args[0], before)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(after), 0o644))
}

func save(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: save FILE NEW")
	}
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path+"~", []byte(ts.ReadFile(args[1])), 0o644))
	ts.Check(os.Rename(path+"~", path))
}

func schema(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: schema FILE DOC")
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	c := jsonschema.NewCompiler()
	ts.Check(c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	ts.Check(err)
	var plain any
	ts.Check(yaml.Unmarshal([]byte(ts.ReadFile(args[1])), &plain))
	data, err := json.Marshal(plain)
	ts.Check(err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	ts.Check(err)
	if err := s.Validate(instance); (err == nil) == neg {
		ts.Fatalf("%s: got %v", args[1], err)
	}
}
