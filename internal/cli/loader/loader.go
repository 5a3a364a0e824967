// Package loader is the command uniflow loader: it receives batches of events until a
// signal, and keeps them in files, in a store, or in both.
//
// The package must not know how batches are read and made durable.
package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/trail"
	"github.com/uniflow-labs/uniflow/internal/loader"
	"github.com/uniflow-labs/uniflow/internal/loader/trailstore"
)

const long = `Loader receives batches of events, such as those that the package batch sends,
and appends them to files of NDJSON in a folder (--out), to a store of events that
uniflow trail queries (--trail), or to both. It runs until SIGTERM or SIGINT.

POST /batch takes a JSON array of events (application/json) or one event a line
(application/x-ndjson), plain or compressed with gzip or zstd. The answer comes
when the events are durable, and lists those that were not taken. If a batch has
the Idempotency-Key of an earlier one, it gets the same answer and is not written
again, also after a restart or a crash of the loader.

An event for a store has a user, a time and a name, in the fields that --user,
--time and --event name; its other fields are its properties. If a field is missing
or has another type than before, the answer lists the event, and the others are
taken. With --trail alone, the keys are in the folder loader of the store. No other
process may write to the store while the loader runs.

GET /health answers 503 while nothing can be written, GET /metrics is for
Prometheus. There is no authentication: listen on a loopback address, or behind a
proxy that authenticates.`

const example = `  uniflow loader --addr 127.0.0.1:9100 --out events
  uniflow loader --addr 127.0.0.1:9100 --out events --rotate 256MiB --max-body 16MiB
  uniflow loader --addr 127.0.0.1:9100 --trail store --user customer --time at`

type options struct {
	addr                              string
	out                               string
	store                             string
	fields                            trail.Fields
	rotate, maxBody, maxEvent, memory app.Size
	inflight, keys                    int
	grace                             time.Duration
	debug                             bool
	logFormat                         string
}

// commands are the commands of one run.
type commands struct{ *app.App }

// Command is the command loader.
func Command(shared *app.App) *cobra.Command {
	a := commands{shared}
	o := &options{rotate: 64 << 20, maxBody: 8 << 20, maxEvent: 1 << 20, memory: 128 << 20}
	cmd := &cobra.Command{
		Use:               "loader {--out FOLDER | --trail FOLDER}",
		Short:             "Receive batches of events into files or a store",
		Long:              long,
		Example:           example,
		Args:              app.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.receive(cmd, o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.addr, "addr", "127.0.0.1:9100", "listen on `ADDRESS`; port 0 picks a free port, which is in the log")
	flags.StringVar(&o.out, "out", "", "keep events in files in `FOLDER`, created if it is missing; one loader at a time may use it")
	flags.StringVar(&o.store, "trail", "", "keep events in the store in `FOLDER`, created if it is missing; no other process may write to it while the loader runs")
	o.fields.AddFlags(cmd, "FIELD")
	flags.Var(&o.rotate, "rotate", "begin a new file of events after `SIZE`")
	flags.Var(&o.maxBody, "max-body", "take batches up to `SIZE`, as they are sent and when they are decompressed")
	flags.Var(&o.maxEvent, "max-event", "take events up to `SIZE`")
	flags.IntVar(&o.inflight, "max-inflight", 64, "answer 429 when `COUNT` batches are in flight")
	flags.Var(&o.memory, "max-inflight-bytes", "answer 429 when the batches in flight take `SIZE` of memory; one alone may take more")
	flags.IntVar(&o.keys, "dedupe-keys", 1_000_000, "remember the last `COUNT` idempotency keys; takes about 100 bytes of memory for each")
	flags.DurationVar(&o.grace, "grace", 10*time.Second, "time for batches to finish at a shutdown, as `DURATION`")
	flags.BoolVar(&o.debug, "debug", false, "log more")
	flags.StringVar(&o.logFormat, "log-format", "text", "log as `FORMAT`: text or json")
	app.CompleteFlag(cmd, "log-format", app.LogFormats())
	for _, folder := range []string{"out", "trail"} {
		if err := cmd.MarkFlagDirname(folder); err != nil {
			panic(err) // the flag was added above
		}
	}
	return cmd
}

func (o *options) check(cmd *cobra.Command) error {
	command := cmd.CommandPath()
	if o.out == "" && o.store == "" {
		return app.Usagef(command, "add --out events or --trail store", "nowhere to keep events: --out or --trail is missing")
	}
	if given := o.fields.Given(cmd); o.store == "" && given != "" {
		return app.Usagef(command, "add --trail store, or remove it", "--%s says how events go to a store, and --trail is missing", given)
	}
	if err := o.fields.Check(command); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(o.addr); err != nil {
		return app.Usagef(command, "write an address such as 127.0.0.1:9100", "--addr must be HOST:PORT, got %q", o.addr)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"max-inflight", o.inflight}, {"dedupe-keys", o.keys}} {
		if f.value <= 0 {
			return app.Usagef(command, "", "--%s must be above 0, got %d", f.name, f.value)
		}
	}
	for _, f := range []struct{ name, folder string }{{"out", o.out}, {"trail", o.store}} {
		if info, err := os.Stat(f.folder); err == nil && !info.IsDir() {
			return app.Usagef(command, "name a folder; the loader makes it if it is missing", "--%s: %s is a file", f.name, f.folder)
		}
	}
	if err := app.NotNegative(command, "grace", o.grace); err != nil {
		return err
	}
	return app.OneOf(command, "log-format", o.logFormat, app.LogFormats())
}

// receive receives batches until a signal, or the end of ctx.
func (a commands) receive(cmd *cobra.Command, o *options) (err error) {
	ctx := cmd.Context()
	if err := o.check(cmd); err != nil {
		return err
	}
	signals, stopSignals := a.Signals(syscall.SIGINT, syscall.SIGTERM)
	defer stopSignals()
	log := a.Logger(o.debug, o.logFormat)
	opts := loader.Options{
		Dir: o.out, Rotate: int64(o.rotate), MaxBody: int64(o.maxBody), MaxEvent: int(o.maxEvent),
		MaxInflight: o.inflight, MaxInflightBytes: int64(o.memory), DedupeKeys: o.keys, Version: app.Version(), Log: log,
	}
	if o.store != "" {
		store, err := trailstore.Use(&opts, trailstore.Options{Dir: o.store, Times: o.fields.Times(), Fields: o.fields.Import()})
		if err != nil {
			return trail.StoreError(fmt.Errorf("loader: %w", err))
		}
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	l, err := loader.Open(opts)
	if err != nil {
		if errors.Is(err, loader.ErrInUse) {
			return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: "name another folder with --out, or end the other loader"}
		}
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.addr)
	if err != nil {
		return errors.Join(fmt.Errorf("loader: %w", err), l.Close())
	}
	found := l.Recovered()
	log.Info("listening", "address", listener.Addr().String(), "folder", l.Dir(),
		"recovered_events", found.Events, "recovered_batches", found.Batches, "keys", found.Keys)
	r := &receiver{commands: a, loader: l, log: log, grace: o.grace, server: l.Server()}
	return r.run(ctx, listener, signals)
}

// A receiver is a loader that serves.
type receiver struct {
	commands
	loader  *loader.Loader
	log     *slog.Logger
	grace   time.Duration
	server  *http.Server
	workers sync.WaitGroup
}

// progress is how often the log shows what has arrived, if anything has.
const progress = 10 * time.Second

func (r *receiver) run(ctx context.Context, listener net.Listener, signals <-chan os.Signal) error {
	ended := make(chan error, 1)
	r.workers.Go(func() { ended <- r.server.Serve(listener) })
	tick := time.NewTicker(progress)
	defer tick.Stop()
	var before loader.Stats
	for {
		select {
		case <-tick.C:
			before = r.logProgress(before)
		case sig := <-signals:
			return r.shutdown(ctx, sig, signals)
		case <-ctx.Done():
			return r.shutdown(context.WithoutCancel(ctx), syscall.SIGTERM, signals)
		case err := <-ended:
			return errors.Join(fmt.Errorf("loader: %w", err), r.loader.Close())
		}
	}
}

// logProgress logs what has arrived since before.
func (r *receiver) logProgress(before loader.Stats) loader.Stats {
	s := r.loader.Stats()
	if s.Batches == before.Batches && s.Duplicates == before.Duplicates && s.Refused == before.Refused {
		return s
	}
	r.log.Info("received", "batches", s.Batches-before.Batches, "events", s.Accepted-before.Accepted,
		"rejected", s.Rejected-before.Rejected, "duplicates", s.Duplicates-before.Duplicates, "refused", s.Refused-before.Refused,
		"bytes", s.Bytes-before.Bytes, "files", s.Files)
	return s
}

// shutdown stops listening, waits for batches in flight up to the grace, and cuts off
// the rest: their clients get no answer, and send them again. A second signal ends
// the program immediately.
func (r *receiver) shutdown(ctx context.Context, sig os.Signal, signals <-chan os.Signal) error {
	r.log.Info("shutting down", "signal", sig.String(), "grace", r.grace.String())
	done := make(chan error, 1)
	r.workers.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, r.grace)
		defer cancel()
		err := r.server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(fmt.Errorf("batches were cut off after %s: %w", r.grace, err), r.server.Close())
		}
		done <- errors.Join(err, r.loader.Close())
	})
	select {
	case err := <-done:
		r.workers.Wait()
		s := r.loader.Stats()
		r.log.Info("shut down", "batches", s.Batches, "events", s.Accepted, "rejected", s.Rejected,
			"duplicates", s.Duplicates, "refused", s.Refused, "bytes", s.Bytes, "files", s.Files)
		return err
	case second := <-signals:
		r.log.Warn("ended immediately", "signal", second.String())
		return &app.ExitError{Code: app.SignalCode(second)}
	}
}
