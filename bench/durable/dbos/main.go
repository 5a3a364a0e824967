// Command dbos runs workflows of three steps that do nothing with DBOS, on SQLite with synchronous=FULL: the peer
// of line D3 of bench/durable, which starts it. It has a module of its own, so that nothing else gets its
// requirements.
//
//	dbos -file FILE -span 3s -flights 256 -sync FULL
//
// It prints the figures as JSON.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // the driver
)

func main() {
	file := flag.String("file", "", "the database, a `file` that is made")
	span := flag.Duration("span", 3*time.Second, "how `long`")
	flights := flag.Int("flights", 256, "how many workflows at a time")
	synchronous := flag.String("sync", "FULL", "the `setting` synchronous: FULL, or NORMAL as DBOS opens a file itself")
	conns := flag.Int("conns", 8, "how many `connections` it has; DBOS itself opens 8")
	flag.Parse()
	if err := run(*file, *span, *flights, *conns, *synchronous); err != nil {
		fmt.Fprintf(os.Stderr, "dbos: %v\n", err)
		os.Exit(1)
	}
}

// three is the workflow: the text is what each step gets and makes.
func three(ctx dbos.Context, text string) (string, error) {
	for range 3 {
		var err error
		if text, err = dbos.RunAsStep(ctx, func(context.Context) (string, error) { return text, nil }); err != nil {
			return "", err
		}
	}
	return text, nil
}

func run(file string, span time.Duration, flights, conns int, synchronous string) (err error) {
	// What DBOS sets for the files that it opens itself, apart from synchronous.
	name := "file:" + file + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(" + synchronous + ")"
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(conns)
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{AppName: "bench", SQLiteSystemDB: db, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(ctx, three)
	if err := dbos.Launch(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dbos.Shutdown(ctx, 10*time.Second)) }()
	text := strings.Repeat("0123456789", 20)
	took := make([][]time.Duration, flights)
	failed := make([]error, flights)
	var all sync.WaitGroup
	start, busy := time.Now(), cpu()
	for i := range flights {
		all.Go(func() {
			for now := time.Now(); now.Sub(start) < span; {
				h, err := dbos.RunWorkflow(ctx, three, text)
				if err == nil {
					_, err = h.GetResult()
				}
				if err != nil {
					failed[i] = err
					return
				}
				end := time.Now()
				took[i] = append(took[i], end.Sub(now))
				now = end
			}
		})
	}
	all.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(failed...); err != nil {
		return err
	}
	times := slices.Concat(took...)
	slices.Sort(times)
	n := len(times)
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"rate": float64(n) / elapsed.Seconds(), "cpu": float64((cpu() - busy).Microseconds()) / float64(n),
		"p50": times[n/2].Seconds() * 1e3, "p99": times[n*99/100].Seconds() * 1e3,
	})
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot happen, as the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
