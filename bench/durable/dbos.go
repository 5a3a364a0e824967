package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// measureDBOS is D3. Our journal has no other setting than FULL, so both have that; DBOS with NORMAL, with which it
// opens files itself, is for information.
func measureDBOS(ctx context.Context, l *lab) error {
	peer := l.File("dbos")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("bench", "durable", "dbos"), "-o", peer, ".")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the peer cannot be built: %w: %.1000s", err, out)
	}
	rounds := []round{l.job("engine", job{Form: "engine", Flights: inFlight})}
	for _, s := range []struct{ sync, conns string }{{"FULL", "8"}, {"FULL", "1"}, {"NORMAL", "8"}} {
		rounds = append(rounds, round{fmt.Sprintf("DBOS, %s, %s connections", s.sync, s.conns), func(ctx context.Context) (f figures, err error) {
			l.files++
			file := l.File(fmt.Sprintf("%d-dbos", l.files))
			cmd := exec.CommandContext(ctx, peer, "-file", file, "-span", l.span.String(), "-flights", fmt.Sprint(inFlight), "-sync", s.sync, "-conns", s.conns)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil {
				return f, fmt.Errorf("%w: %.1000s", err, errs.Bytes())
			}
			return f, errors.Join(json.Unmarshal(out.Bytes(), &f), remove(file))
		}})
	}
	sides, err := l.turns(ctx, "D3", rounds...)
	if err != nil {
		return err
	}
	best := max(sides[1].Rate, sides[2].Rate)
	l.enter(best, sides...)
	l.least("D3, ÷ DBOS, both FULL", 8, sides[0].Rate/best)
	return nil
}
