package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/flight"
	"github.com/uniflow-labs/uniflow/observe/otlp"
)

// telemetry are the flags about what is kept of processes, and where it goes.
type telemetry struct {
	slow      time.Duration
	slowDir   string
	otlp      string
	otlpRatio float64
}

const (
	flagSlow      = "slow"
	flagSlowDir   = "slow-dir"
	flagOTLP      = "otlp"
	flagOTLPRatio = "otlp-ratio"
)

func (t *telemetry) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&t.slow, flagSlow, 0, "keep the timeline of each process that takes this `DURATION` or longer, and the runtime's trace of that time; costs some per cent")
	flags.StringVar(&t.slowDir, flagSlowDir, "", "where --slow keeps files, a `FOLDER` that holds 64 MiB at most; uniflow/slow in the user's cache folder if left out")
	flags.StringVar(&t.otlp, flagOTLP, "", "send traces to the OpenTelemetry receiver at `URL`, such as http://127.0.0.1:4318, with OTLP over HTTP")
	flags.Float64Var(&t.otlpRatio, flagOTLPRatio, 1, "send the traces of this `SHARE`, 0 to 1, of processes that no trace reaches with their request; those that one reaches are sent if it is sampled")
}

func (t *telemetry) check(command string) error {
	switch {
	case t.slow < 0:
		return usagef(command, "", "--slow is not negative, got %s", t.slow)
	case t.slowDir != "" && t.slow == 0:
		return usagef(command, "add --slow 1s", "--slow-dir needs --slow")
	case t.otlpRatio < 0 || t.otlpRatio > 1 || t.otlpRatio != t.otlpRatio:
		return usagef(command, "", "--otlp-ratio is between 0 and 1, got %v", t.otlpRatio)
	}
	if t.otlp != "" {
		if err := otlp.CheckURL(t.otlp); err != nil {
			return usagef(command, "write a URL such as http://127.0.0.1:4318", "--otlp: %w", err)
		}
	}
	return nil
}

// recorders are what gets timelines. The zero recorders get none.
type recorders struct {
	flight *flight.Recorder // nil without --slow
	otlp   *otlp.Exporter   // nil without --otlp
}

// start begins to record. Link is where the admin server shows slow processes.
func (t *telemetry) start(log *slog.Logger, link func() string) (r recorders, err error) {
	if t.slow > 0 {
		dir := t.slowDir
		if dir == "" {
			cache, err := os.UserCacheDir()
			if err != nil {
				return r, fmt.Errorf("--slow: %w: name a folder with --slow-dir", err)
			}
			dir = filepath.Join(cache, "uniflow", "slow")
		}
		r.flight, err = flight.Start(flight.Options{Slow: t.slow, Dir: dir, Log: log, Link: link})
		if err != nil {
			return r, err
		}
		log.Info("keeping slow processes", "slow", t.slow.String(), "folder", dir)
	}
	if t.otlp != "" {
		r.otlp, err = otlp.New(otlp.Options{URL: t.otlp, Ratio: t.otlpRatio, Version: versionOf(), Log: log})
		if err != nil {
			r.close(log, 0)
			return r, err
		}
		log.Info("sending traces", "url", t.otlp, "ratio", t.otlpRatio)
	}
	return r, nil
}

func (r *recorders) watch() []observe.Recorder {
	var all []observe.Recorder
	if r.flight != nil {
		all = append(all, r.flight.Watch())
	}
	if r.otlp != nil {
		all = append(all, r.otlp.Recorder())
	}
	return all
}

// flush is how long the last traces may take to be sent.
const flush = 5 * time.Second

// close hands over what is left, for some time at most; the engine has ended. What
// cannot be handed over is logged: a receiver that is down is no reason to exit with
// an error.
func (r *recorders) close(log *slog.Logger, within time.Duration) {
	if r.flight != nil {
		r.flight.Close()
	}
	if r.otlp == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := r.otlp.Close(ctx); err != nil {
		log.Warn("not all traces were sent", keyLogError, err)
	}
}
