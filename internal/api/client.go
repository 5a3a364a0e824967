package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A Client asks a running program. Any goroutine may use it, but not while it enters.
type Client struct {
	Address string       // of the admin server: host:port
	Token   string       // empty for none
	HTTP    *http.Client // nil for one without a proxy, which must not see the token
}

// maxAnswer is the most bytes of an answer that are read.
const maxAnswer = 64 << 20

// Get asks for a path, such as /api/v1/graph?as=json, and decodes the answer into what into points to. An
// answer that is an error is a [*StatusError].
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Send(ctx, http.MethodGet, path, nil, into)
}

// Text is [Client.Get] of an answer that is text.
func (c *Client) Text(ctx context.Context, path string) (string, error) {
	data, err := c.ask(ctx, http.MethodGet, path, nil)
	return string(data), err
}

// Send is [Client.Get] with another method, and a body that is sent as JSON; nil for none. A nil into drops
// the answer.
func (c *Client) Send(ctx context.Context, method, path string, body, into any) error {
	data, err := c.ask(ctx, method, path, body)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ask returns the body of an answer.
func (c *Client) ask(ctx context.Context, method, path string, body any) ([]byte, error) {
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
}

// Enter opens a session with a code, or with the address that the code is at the end of. Later requests belong to it.
func (c *Client) Enter(ctx context.Context, code string) error {
	var opened Session
	if err := c.Send(ctx, http.MethodPost, SessionPath, Credentials{Code: code[strings.LastIndex(code, "=")+1:]}, &opened); err != nil {
		return err
	}
	c.Token = opened.Token
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := c.HTTP
	if client == nil {
		client = &http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return nil, &StatusError{resp.StatusCode, ErrorOf(text)}
}

// ErrorOf reads the body of an answer that is an error: one that is not JSON is the message.
func ErrorOf(body []byte) Error {
	var e Error
	if err := json.Unmarshal(body, &e); err != nil || e.Message == "" {
		return Error{Message: strings.TrimSpace(string(body))}
	}
	return e
}

// A StatusError is an answer that is an error.
type StatusError struct {
	Status int
	Answer Error
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Answer.Message) }

// An Event is one of [Client.Events].
type Event struct {
	Type string // hello or metrics
	Data []byte // JSON
}

// Events calls f with each event until it returns an error, the context ends or the stream does.
func (c *Client) Events(ctx context.Context, f func(Event) error) error {
	resp, err := c.do(ctx, http.MethodGet, EventsPath, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	var event Event
	for lines.Scan() {
		key, text, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "event":
			event.Type = text
		case "data":
			event.Data = []byte(text)
		case "":
			if event.Type != "" {
				if err := f(event); err != nil {
					return err
				}
			}
			event = Event{}
		}
	}
	return errors.Join(lines.Err(), ctx.Err())
}
