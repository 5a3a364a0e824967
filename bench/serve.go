package main

import (
	"context"
	"net/http"

	"github.com/uniflow-labs/uniflow/bench/server"
)

// serve is the baseline server: GET /ping answered by hand with net/http, the shop
// in several forms, and the baselines of web.go. It has no limits and no timeouts; ours has
// both, and they cost time for each request.
func serve(ctx context.Context, c config) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("pong")) //nolint:errcheck // the client is gone
	})
	for _, form := range byHand() {
		mux.HandleFunc("POST /"+form.name+"/orders", form.serve)
	}
	if err := serveWeb(mux, c.root, c.target); err != nil {
		return err
	}
	forms, err := guardedByHand()
	if err != nil {
		return err
	}
	for _, form := range forms {
		mux.HandleFunc("POST /"+form.name+"/orders", form.serve)
	}
	return server.Listen(ctx, c.serve, mux)
}
