package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// A Client controls one run on a server. It has connections of its own, which
// are closed after each call, so that it leaves nothing in the figures.
type Client struct {
	base string // http://host:port
	name string
}

// NewClient returns the client of the run with a name, on the server at
// http://host:port.
func NewClient(base, name string) *Client { return &Client{base, name} }

// URL returns where batches of the run go, without the last slash.
func (c *Client) URL() string { return c.Endpoint() + "/batch" }

// Endpoint returns the address that /batch is appended to.
func (c *Client) Endpoint() string { return c.base + "/run/" + c.name }

// Begin begins the run. What was there before under its name is forgotten.
func (c *Client) Begin(ctx context.Context, r Run) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, http.MethodPut, "", body)
	return err
}

// Counts returns the account so far.
func (c *Client) Counts(ctx context.Context) (Counts, error) { return c.counts(ctx, "") }

// Brief returns the account so far without ages, which takes the server nothing.
func (c *Client) Brief(ctx context.Context) (Counts, error) { return c.counts(ctx, "?ages=no") }

func (c *Client) counts(ctx context.Context, query string) (Counts, error) {
	var counts Counts
	body, err := c.call(ctx, http.MethodGet, query, nil)
	if err != nil {
		return counts, err
	}
	return counts, json.Unmarshal(body, &counts)
}

// End has the server forget the run.
func (c *Client) End(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodDelete, "", nil)
	return err
}

func (c *Client) call(ctx context.Context, method, query string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint()+query, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	return answer, status(resp, answer)
}
