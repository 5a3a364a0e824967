package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/server"
)

// measureShop is N1. The baseline is the fastest of the forms that are written by hand.
func measureShop(ctx context.Context, l *lab, line Line) (rows []Row, err error) {
	shop := server.ShopWorkload()
	ours := server.Workflow{Name: shop.Name, Document: shop.Document, Path: shop.Ready, Status: shop.Status}
	return l.againstHand(ctx, line, ours, shop.Load.Path, byHand(), "", sameAnswers)
}

// orders are what the shop accepts, sends to review, and refuses.
var orders = []string{
	server.Order,
	`{"customer":"ada","lines":[{"sku":"tea","count":1000000}]}`,
	`{"customer":"ada","lines":[{"sku":"milk","count":1}]}`,
	`{"customer":"","lines":[{"sku":"tea","count":1}]}`,
	`{"customer":"ada","lines":[]}`,
	`{"customer":"ada","lines":[{"sku":"tea","count":0}]}`,
}

// sameAnswers fails unless all servers answer the orders alike. An encoder that ends the
// body with a line break is forgiven.
func sameAnswers(ctx context.Context, servers []*server.Server, paths map[string]string) error {
	for _, order := range orders {
		var want string
		for _, s := range servers {
			got, err := post(ctx, "http://"+s.Addr+paths[s.Name], order, "")
			if err != nil {
				return err
			}
			if want == "" {
				want = got
			}
			if got != want {
				return fmt.Errorf("the answers to %s differ: %s, and %s by %s", order, want, got, s.Name)
			}
		}
	}
	return nil
}

// post sends JSON with one more line of the header, if it is not empty.
func post(ctx context.Context, url, body, header string) (answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if name, text, ok := strings.Cut(strings.TrimSpace(header), ": "); ok {
		req.Header.Set(name, text)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%s %s %s", resp.Status, resp.Header.Get("Content-Type"), bytes.TrimSpace(data)), errors.Join(err, resp.Body.Close())
}

// The shop by hand.
type (
	order struct {
		Customer string `json:"customer"`
		Lines    []line `json:"lines"`
	}
	line struct {
		SKU   string `json:"sku"`
		Count int    `json:"count"`
	}
	priced struct {
		State    string       `json:"state"`
		Customer string       `json:"customer"`
		Lines    []pricedLine `json:"lines"`
	}
	pricedLine struct {
		SKU   string `json:"sku"`
		Count int    `json:"count"`
		Total int    `json:"total"`
	}
	refusal struct {
		Message string `json:"message"`
	}
)

var prices = map[string]int{"tea": 450, "coffee": 520, "cocoa": 610, "mate": 395}

func (o *order) valid() bool {
	return o.Customer != "" && len(o.Lines) > 0 && !slices.ContainsFunc(o.Lines, func(l line) bool { return l.Count <= 0 })
}

// price returns the answer to an order, which may not be valid.
func price(o *order) (status int, answer any) {
	refused := refusal{"an order has a customer, and lines with a sku that we sell and a count above 0"}
	if !o.valid() {
		return http.StatusUnprocessableEntity, refused
	}
	p := &priced{State: "accepted", Customer: o.Customer, Lines: make([]pricedLine, 0, len(o.Lines))}
	status = http.StatusCreated
	for _, l := range o.Lines {
		each, ok := prices[l.SKU]
		if !ok {
			return http.StatusUnprocessableEntity, refused
		}
		total := each * l.Count
		if total > 100000 {
			p.State, status = "review", http.StatusAccepted
		}
		p.Lines = append(p.Lines, pricedLine{l.SKU, l.Count, total})
	}
	return status, p
}

// byHand are the ways to read and write JSON that are in use.
func byHand() []form {
	return []form{
		{"unmarshal", func(w http.ResponseWriter, r *http.Request) {
			var o order
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = json.Unmarshal(body, &o)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			status, answer := price(&o)
			out, err := json.Marshal(answer)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			w.Write(out) //nolint:errcheck // the client is gone
		}},
		{"decoder", func(w http.ResponseWriter, r *http.Request) {
			var o order
			if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			status, answer := price(&o)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client is gone
		}},
		{"pooled", func(w http.ResponseWriter, r *http.Request) {
			buf := buffers.Get().(*bytes.Buffer)
			defer buffers.Put(buf)
			buf.Reset()
			var o order
			_, err := buf.ReadFrom(r.Body)
			if err == nil {
				err = json.Unmarshal(buf.Bytes(), &o)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			status, answer := price(&o)
			buf.Reset()
			if err := json.NewEncoder(buf).Encode(answer); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			w.Write(buf.Bytes()) //nolint:errcheck // the client is gone
		}},
	}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
