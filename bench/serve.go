package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// serve is the baseline server: what somebody who needs GET /ping to answer pong
// would write without an engine. It has no limits and no timeouts, which cost
// something for each request and which ours has.
func serve(ctx context.Context, name, addr string) error {
	if name != "nethttp" {
		return fmt.Errorf("-serve: no baseline %q, but nethttp", name)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("pong")) //nolint:errcheck // the client has gone: nobody is there to be told
	})
	s := &http.Server{Addr: addr, Handler: mux}
	defer context.AfterFunc(ctx, func() {
		// A listener that is closed makes ListenAndServe return.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if s.Shutdown(grace) != nil {
			s.Close() //nolint:errcheck // the process ends now
		}
	})()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
