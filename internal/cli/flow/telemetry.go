package flow

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/flight"
	"github.com/uniflow-labs/uniflow/observe/otlp"
)

// checkTelemetry refuses settings of timelines and traces that cannot be used.
func checkTelemetry(command string, s *settings.Settings) error {
	if err := app.NotNegative(command, "slow", s.Slow); err != nil {
		return err
	}
	switch {
	case s.SlowDir != "" && s.Slow == 0:
		return app.Usagef(command, "add --slow 1s", "--slow-dir needs --slow")
	case s.OTLPRatio < 0 || s.OTLPRatio > 1 || s.OTLPRatio != s.OTLPRatio:
		return app.Usagef(command, "", "--otlp-ratio must be between 0 and 1, got %v", s.OTLPRatio)
	}
	if s.OTLP != "" {
		if err := otlp.CheckURL(s.OTLP); err != nil {
			return app.Usagef(command, "write a URL such as http://127.0.0.1:4318", "--otlp: %w", err)
		}
	}
	return nil
}

// recorders get the timelines of processes. The zero value has none.
type recorders struct {
	flight *flight.Recorder // nil without --slow
	otlp   *otlp.Exporter   // nil without --otlp
}

// startRecorders begins to record. Link is where the admin server shows slow processes.
func startRecorders(s *settings.Settings, log *slog.Logger, link func() string) (r recorders, err error) {
	if s.Slow > 0 {
		dir := s.SlowDir
		if dir == "" {
			cache, err := os.UserCacheDir()
			if err != nil {
				return r, fmt.Errorf("--slow: %w: name a folder with --slow-dir", err)
			}
			dir = filepath.Join(cache, "uniflow", "slow")
		}
		r.flight, err = flight.Start(flight.Options{Slow: s.Slow, Dir: dir, Log: log, Link: link})
		if err != nil {
			return r, err
		}
		log.Info("keeping slow processes", "slow", s.Slow.String(), "folder", dir)
	}
	if s.OTLP != "" {
		r.otlp, err = otlp.New(otlp.Options{URL: s.OTLP, Ratio: s.OTLPRatio, Version: app.Version(), Log: log})
		if err != nil {
			r.close(log, 0)
			return r, err
		}
		log.Info("sending traces", "url", hidden("--"+settings.OTLP, s.OTLP), "ratio", s.OTLPRatio)
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

// flush is how long sending the last traces may take.
const flush = 5 * time.Second

// close sends the last traces, within a time limit. The engine must have ended. Traces
// that cannot be sent are logged: the program does not fail because a receiver is down.
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
